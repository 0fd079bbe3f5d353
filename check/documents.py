"""Documents of public APIs, from packages that ship them, and what it takes to put each of them behind the gateway."""

import dataclasses
import os
import pathlib
import re

import yaml

PACKAGES = pathlib.Path(os.environ["CHECK_TOOLS"]) / "node" / "node_modules"
METHODS = ("get", "put", "post", "delete", "patch", "head", "options", "trace")

NO_VERSION = "must begin with a version"
NO_SECURITY = "has no security; say `security: []`"
NO_NAME = "has no `operationId`"
OTHER_SCHEME = "only `oauth2`, `openIdConnect`"
TOO_DEEP = "more than 8 levels"
NO_SCHEMA = "This is no JSON Schema"
PART_OF_A_SEGMENT = "is no variable of the path"
NOT_DESCRIBED = "is not described; add a parameter with `in: path`"


@dataclasses.dataclass
class Other:
    """A document, and what it is refused for: every reason, and nothing else."""

    name: str
    file: str
    as_it_is: tuple
    # Once its owner has changed what the gateway asks for; with no reason left it loads.
    adapted: tuple = ()
    can_be_adapted: bool = True
    # Paths that no gateway's route table could hold, or that are wrong in the document.
    without: tuple = ()

    @property
    def path(self):
        return PACKAGES / self.file

    def read_adapted(self):
        """Paths below a version, a scope for every operation, and a name where there is none. Parameters, bodies, schemas
        and answers stay as they are."""
        document = yaml.load(self.path.read_text(), yaml.CSafeLoader)
        paths = {}
        for path, item in document["paths"].items():
            if path in self.without:
                continue
            for method in METHODS:
                if method in item:
                    item[method].pop("security", None)
                    item[method].setdefault("operationId", method + re.sub(r"[^a-zA-Z0-9]+", "_", path))
            paths["/v7" + path] = item
        flow = {"tokenUrl": "/oauth2/token", "scopes": {"others:use": "Call it."}}
        scheme = {"type": "oauth2", "flows": {"clientCredentials": flow}}
        document["paths"], document["security"] = paths, [{"portico": ["others:use"]}]
        document.setdefault("components", {})["securitySchemes"] = {"portico": scheme}
        return document, sum(method in item for item in paths.values() for method in METHODS)


OTHERS = (
    Other(
        "GitHub's, 706 operations of 3.0",
        "@octokit/openapi/generated/api.github.com.json",
        (NO_VERSION, NO_SECURITY, PART_OF_A_SEGMENT, NOT_DESCRIBED),
        without=("/", "/repos/{owner}/{repo}/compare/{base}...{head}"),
    ),
    Other("GitHub's without references, 14 MB", "@octokit/openapi/generated/api.github.com.deref.json", ("at most 5242880",), can_be_adapted=False),
    Other("ReadMe's, 3.1", "@readme/oas-examples/3.1/json/readme.json", (NO_VERSION,)),
    Other("Star Trek's, forms of 3.0 and no names", "@readme/oas-examples/3.0/json/star-trek.json", (NO_VERSION, NO_SECURITY, NO_NAME)),
    Other("Figma's, 400 kB of YAML", "@figma/rest-api-spec/openapi/openapi.yaml", (OTHER_SCHEME, TOO_DEEP), (TOO_DEEP,)),
    Other("Directus's, with a schema that is none", "@directus/specs/dist/openapi.json", (NO_VERSION, OTHER_SCHEME, NO_SCHEMA), (NO_SCHEMA,)),
    Other("Netlify's, of Swagger 2", "@netlify/open-api/dist/swagger.json", ("Swagger 2; OpenAPI 3.0 and 3.1 are read",), can_be_adapted=False),
)
