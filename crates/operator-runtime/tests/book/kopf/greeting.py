"""The operator of the page for users of kopf."""

import kopf
import kubernetes
from kubernetes.client import ApiException

kubernetes.config.load_kube_config()
api = kubernetes.client.CoreV1Api()


# ANCHOR: operator
@kopf.on.create("greetings.example.com")
@kopf.on.update("greetings.example.com")
@kopf.on.resume("greetings.example.com")
def write(body, name, namespace, spec, patch, **_):
    if not spec["name"]:
        raise kopf.PermanentError("spec.name must not be empty")
    config = {"metadata": {"name": name}, "data": {"text": f"Hello, {spec['name']}"}}
    kopf.adopt(config)
    try:
        api.create_namespaced_config_map(namespace, config)
    except ApiException as error:
        if error.status != 409:
            raise
        api.patch_namespaced_config_map(name, namespace, config)
    kopf.info(body, reason="Written", message="the greeting is in the ConfigMap")
    patch.status["written"] = True


@kopf.timer("greetings.example.com", interval=60)
def check(**kwargs):
    write(**kwargs)
# ANCHOR_END: operator
