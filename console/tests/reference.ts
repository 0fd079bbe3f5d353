// What the tests take from the reference, as one program: its parts know each other's documents.
export { BUILT_IN, withServices } from "../src/reference/document";
export { callOf, example } from "../src/reference/examples";
