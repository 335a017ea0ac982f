"""A widget operator on kopf that writes the size of a widget to a ConfigMap.

It has a planted bug: it replaces the ConfigMap with a changed copy without the resourceVersion of what it read, so that it
overwrites a change that another client has made in between. With CORRECTED=1 it sends the resourceVersion.
"""

import base64
import json
import os
import ssl
import urllib.error
import urllib.request

import kopf
import yaml

with open(os.environ["KUBECONFIG"]) as file:
    CLUSTER = yaml.safe_load(file)["clusters"][0]["cluster"]
CONTEXT = ssl.create_default_context(
    cadata=base64.b64decode(CLUSTER["certificate-authority-data"]).decode()
)


def call(method, path, body=None):
    request = urllib.request.Request(
        CLUSTER["server"] + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=CONTEXT) as response:
        return json.load(response)


@kopf.on.create("widgets.example.com", backoff=1)
@kopf.on.update("widgets.example.com", backoff=1)
@kopf.on.resume("widgets.example.com", backoff=1)
def reconcile(name, spec, **_):
    path = "/api/v1/namespaces/default/configmaps"
    size = str(spec["size"])
    try:
        found = call("GET", f"{path}/{name}")
    except urllib.error.HTTPError as error:
        if error.code != 404:
            raise
        metadata = {"name": name}
        call("POST", path, {"metadata": metadata, "data": {"size": size}})
        return
    if found["data"].get("size") == size:
        return
    found["data"]["size"] = size
    if "CORRECTED" not in os.environ:
        del found["metadata"]["resourceVersion"]
    call("PUT", f"{path}/{name}", found)
