"""A service that somebody made with FastAPI, as FastAPI writes its document; `books.py --document` prints that.

It has what such services use: enums, dates, UUIDs, lists and unions, what may be null, headers, and a webhook.
"""

import datetime
import enum
import json
import sys
import uuid
from typing import Annotated, Literal

import fastapi
import uvicorn
from fastapi.security import OAuth2PasswordBearer
from pydantic import BaseModel, ConfigDict, Field

SCOPES = {"books:read": "Read books.", "books:write": "Add, change and remove books."}
# The gateway has looked at the token and keeps it, so nothing here may ask for it.
portico = OAuth2PasswordBearer(tokenUrl="/oauth2/token", scopes=SCOPES, auto_error=False)
READ, WRITE = fastapi.Security(portico, scopes=["books:read"]), fastapi.Security(portico, scopes=["books:write"])
app = fastapi.FastAPI(title="Books", description="What a library has.", generate_unique_id_function=lambda route: route.name)


class Kind(enum.StrEnum):
    novel = "novel"
    essay = "essay"
    map = "map"


class Person(BaseModel):
    """Somebody who wrote a book."""

    kind: Literal["person"]
    name: str = Field(min_length=1, max_length=80)
    born: datetime.date | None = None


class Society(BaseModel):
    """Several people who wrote a book."""

    kind: Literal["society"]
    title: str = Field(max_length=80)
    members: int = Field(default=2, ge=2, le=1000)


class NewBook(BaseModel):
    """A book that is to be added."""

    model_config = ConfigDict(extra="forbid")
    title: str = Field(min_length=1, max_length=200)
    kind: Kind = Kind.novel
    authors: list[Annotated[Person | Society, Field(discriminator="kind")]] = Field(min_length=1, max_length=5)
    isbn: str | None = Field(default=None, pattern="^[0-9]{9}[0-9X]$")
    price: float | None = Field(default=None, ge=0, lt=10_000)
    labels: dict[str, str] = {}


class Book(NewBook):
    """A book."""

    model_config = ConfigDict(extra="ignore")
    id: uuid.UUID
    added_at: datetime.datetime


class Sold(BaseModel):
    """A book was sold."""

    book_id: uuid.UUID
    price: float


books: dict[uuid.UUID, Book] = {}


@app.get("/v1/books", dependencies=[READ])
def list_books(
    kind: Annotated[list[Kind], fastapi.Query(max_length=3)] = [],
    since: datetime.date | None = None,
    limit: Annotated[int, fastapi.Query(ge=1, le=100)] = 20,
    newest_first: bool = False,
) -> list[Book]:
    """List books."""
    found = [each for each in books.values() if each.kind in (kind or Kind)]
    found = [each for each in found if since is None or each.added_at.date() >= since]
    return found[::-1 if newest_first else 1][:limit]


@app.post("/v1/books", status_code=201, dependencies=[WRITE], openapi_extra={"x-portico-units": 7})
def add_book(book: NewBook, library: Annotated[str | None, fastapi.Header(max_length=20, pattern="^[a-z]*$")] = None) -> Book:
    """Add a book."""
    made = Book(**book.model_dump(), id=uuid.uuid4(), added_at=datetime.datetime.now(tz=datetime.timezone.utc))
    if len(books) < 1000:
        books[made.id] = made
    return made


@app.get(
    "/v1/books/{book_id}",
    dependencies=[READ],
    responses={404: {"description": "There is none."}},
    openapi_extra={"x-portico-tool": {"name": "books_get_book", "title": "Read a book"}},
)
def get_book(book_id: uuid.UUID) -> Book:
    """Read a book."""
    if book_id not in books:
        raise fastapi.HTTPException(404, "There is no such book.")
    return books[book_id]


@app.delete("/v1/books/{book_id}", status_code=204, dependencies=[WRITE], responses={404: {"description": "There is none."}})
def remove_book(book_id: uuid.UUID) -> None:
    """Remove a book."""
    if books.pop(book_id, None) is None:
        raise fastapi.HTTPException(404, "There is no such book.")


@app.webhooks.post("book.sold")
def book_sold(body: Sold):
    """A book was sold."""


if __name__ == "__main__":
    if "--document" in sys.argv:
        print(json.dumps(app.openapi(), indent=2))
    else:
        uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
