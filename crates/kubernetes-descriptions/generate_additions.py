#!/usr/bin/env python3
"""Writes the descriptions that the crate `k8s-openapi` does not have, from the OpenAPI documents of a kube-apiserver.

    python3 generate_additions.py TABLE DOCUMENT... > additions-1.36.txt

TABLE is the table of this crate, built with an empty `additions-1.36.txt`. A DOCUMENT is a v3 document, as the path
`/openapi/v3/apis/GROUP/VERSION` of a server returns it. One of them is about a custom resource with an embedded resource.

A line has keys, a space, and a text in JSON. The text follows the description of a key with `+`, and replaces it
otherwise. A key is the name of a type, TYPE/FIELD, parameter/NAME, or embedded/FIELD.
"""

import json
import sys
import zlib

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
CORE = "io.k8s.api.core.v1."
# The options of an operation, by its action.
OPTIONS = {
    "list": ["ListOptions"],
    "watch": ["ListOptions"],
    "watchlist": ["ListOptions"],
    "deletecollection": ["ListOptions", "DeleteOptions"],
    "post": ["CreateOptions"],
    "put": ["CreateOptions"],
    "patch": ["PatchOptions"],
    "delete": ["DeleteOptions"],
}
# Parameters that deletions have, but lists do not.
DELETION = {
    "dryRun",
    "gracePeriodSeconds",
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "orphanDependents",
    "propagationPolicy",
}


def read_table(path):
    parts = zlib.decompress(open(path, "rb").read()).decode().split("\0")
    return dict(zip(parts[0::2], parts[1::2]))


def fallback(table, key):
    """Returns the description that the server uses if the table has none."""
    name, _, field = key.partition("/")
    if name.endswith("List") and field in ("apiVersion", "kind", "metadata"):
        return table.get(META + "Status/" + field)
    return None


def of_embedded(schema):
    """Yields the descriptions of the fields of embedded resources in the schema of a custom resource."""
    properties = schema.get("properties", {})
    if schema.get("x-kubernetes-embedded-resource"):
        for field in ("apiVersion", "kind"):
            yield f"embedded/{field}", properties[field]["description"]
    for property in properties.values():
        yield from of_embedded(property)


def of_schemas(document):
    title = document.get("info", {}).get("title")
    for name, schema in document.get("components", {}).get("schemas", {}).items():
        if title != "Kubernetes":
            yield from of_embedded(schema)
            continue
        if "description" in schema:
            yield name, schema["description"]
        for field, property in schema.get("properties", {}).items():
            if "description" in property:
                yield f"{name}/{field}", property["description"]


def options_of(path, operation, name):
    action = operation.get("x-kubernetes-action")
    kind = operation.get("x-kubernetes-group-version-kind", {}).get("kind", "")
    if action == "connect":
        return CORE + kind
    if path.endswith("/log"):
        return CORE + "PodLogOptions"
    names = OPTIONS.get(action, ["ListOptions"])
    return META + (names[-1] if name in DELETION else names[0])


def of_parameters(document):
    for path, item in document.get("paths", {}).items():
        operations = [value for key, value in item.items() if key != "parameters"]
        for operation in operations:
            for parameter in operation.get("parameters", []) + item.get("parameters", []):
                name = parameter["name"]
                if name == "name" or "description" not in parameter:
                    continue
                if name == "pretty" or parameter["in"] == "path":
                    yield f"parameter/{name}", parameter["description"]
                else:
                    yield f"{options_of(path, operation, name)}/{name}", parameter["description"]


def main():
    table = read_table(sys.argv[1])
    wanted = {}
    for path in sys.argv[2:]:
        document = json.load(open(path))
        for key, text in list(of_schemas(document)) + list(of_parameters(document)):
            if wanted.setdefault(key, text) != text:
                print(f"{path}: {key} has two descriptions", file=sys.stderr)
    keys = {}
    for key, text in sorted(wanted.items()):
        known = table.get(key, fallback(table, key))
        if known == text:
            continue
        if key in table and text.startswith(known):
            keys.setdefault(text[len(known):], []).append("+" + key)
        else:
            keys.setdefault(text, []).append(key)
    for text, of_text in sorted(keys.items(), key=lambda item: item[1]):
        print(" ".join(of_text), json.dumps(text, ensure_ascii=False))


main()
