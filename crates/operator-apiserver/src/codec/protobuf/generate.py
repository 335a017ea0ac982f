#!/usr/bin/env python3
"""Makes messages-1.36.txt from the protobuf field numbers and the resources of Kubernetes 1.36.

    python3 generate.py builtin-protobuf-1.36.json builtin-resources-1.36.json > messages-1.36.txt

A line is a message: its short name, then its fields as NUMBER:JSONNAME:TYPE. A type is one of
s(tring) b(ool) i(nteger) d(ouble) y (bytes) or the short name of a message, with a suffix: * repeated,
{} a map from strings, > inlined (its fields stand in the parent's JSON object).
Only messages that a served kind can contain are kept. The beta version resource.k8s.io/v1beta1 has its own messages only
where they differ from those of v1.
"""
import json
import sys

messages = json.load(open(sys.argv[1]))["messages"]
resources = json.load(open(sys.argv[2]))["resources"]

# JSON names that differ from the protobuf names.
RENAMED = {
    "MutatingWebhookConfiguration": {"Webhooks": "webhooks"},
    "ValidatingWebhookConfiguration": {"Webhooks": "webhooks"},
    "Validation": {"Expression": "expression"},
    "Variable": {"Expression": "expression", "Name": "name"},
    "BoundObjectReference": {"uID": "uid"},
    "IngressClassParametersReference": {"aPIGroup": "apiGroup"},
    "JSONSchemaProps": {
        "ref": "$ref",
        "schema": "$schema",
        "xKubernetesEmbeddedResource": "x-kubernetes-embedded-resource",
        "xKubernetesIntOrString": "x-kubernetes-int-or-string",
        "xKubernetesListMapKeys": "x-kubernetes-list-map-keys",
        "xKubernetesListType": "x-kubernetes-list-type",
        "xKubernetesMapType": "x-kubernetes-map-type",
        "xKubernetesPreserveUnknownFields": "x-kubernetes-preserve-unknown-fields",
        "xKubernetesValidations": "x-kubernetes-validations",
    },
}
# Go embeds these structs, so their fields stand in the parent's JSON object.
INLINED = {
    ("NamedRuleWithOperations", "ruleWithOperations"),
    ("RuleWithOperations", "rule"),
    ("ConfigMapEnvSource", "localObjectReference"),
    ("ConfigMapKeySelector", "localObjectReference"),
    ("ConfigMapProjection", "localObjectReference"),
    ("ConfigMapVolumeSource", "localObjectReference"),
    ("SecretEnvSource", "localObjectReference"),
    ("SecretKeySelector", "localObjectReference"),
    ("SecretProjection", "localObjectReference"),
    ("EphemeralContainer", "ephemeralContainerCommon"),
    ("PersistentVolumeSpec", "persistentVolumeSource"),
    ("Probe", "handler"),
    ("Volume", "volumeSource"),
    ("IngressRule", "ingressRuleValue"),
    ("DeviceAllocationConfiguration", "deviceConfiguration"),
    ("DeviceClaimConfiguration", "deviceConfiguration"),
    ("DeviceClassConfiguration", "deviceConfiguration"),
}
SCALARS = {"string": "s", "bool": "b", "int32": "i", "int64": "i", "double": "d", "bytes": "y"}


def short(name):
    parts = name.split(".")
    return ".".join(parts[-3:])


def package(group):
    return {"": "core"}.get(group, group.split(".")[0])


def resolve(owner, name):
    name = name.lstrip(".")
    return name if "." in name else owner.rsplit(".", 1)[0] + "." + name


def field_type(owner, kind, label):
    if kind.startswith("map<string,"):
        inner = kind[len("map<string,"):-1]
        return (SCALARS[inner] if inner in SCALARS else resolve(owner, inner)), "{}"
    suffix = "*" if label == "repeated" else ""
    return (SCALARS[kind] if kind in SCALARS else resolve(owner, kind)), suffix


wanted = {short(m): m for m in messages}
OLDER, STABLE = "resource.v1beta1.", "resource.v1."


def differs(kind, different):
    """Returns true if a message of v1beta1 differs from that of v1, or contains one that does."""
    def fields(package):
        full = wanted.get(package + kind)
        found = messages[full] if full else {}
        return {field: (number, short(resolve(full, ty)).replace(package, "")
                        if not ty.startswith("map<") and ty not in SCALARS else ty, label)
                for field, (number, ty, label) in found.items()}
    older = fields(OLDER)
    contained = {ty for _, ty, _ in older.values()}
    contained |= {ty[len("map<string,"):-1] for ty in contained if ty.startswith("map<")}
    return older != fields(STABLE) or bool(contained & different)


different = set()
while True:
    found = {name[len(OLDER):] for name in wanted if name.startswith(OLDER)}
    found = {kind for kind in found if differs(kind, different)}
    if found == different:
        break
    different = found


def versioned(name):
    """Returns the message of v1 for one of v1beta1 that is the same."""
    is_same = name.startswith(OLDER) and name[len(OLDER):] not in different
    return STABLE + name[len(OLDER):] if is_same else name


queue = [
    "meta.v1." + name
    for name in (
        "DeleteOptions", "Status", "PartialObjectMetadata", "PartialObjectMetadataList",
        "APIGroup", "APIGroupList", "APIResourceList", "APIVersions",
    )
]
for r in resources:
    group = r.get("group") or (r["groupVersion"].rsplit("/", 1)[0] if "/" in r["groupVersion"] else "")
    version = r.get("version") or r["groupVersion"].rsplit("/", 1)[-1]
    name = f"{'apiserverinternal' if group == 'internal.apiserver.k8s.io' else package(group)}.{version}.{r['kind']}"
    if name in wanted:
        queue += [name, name + "List"]
    elif r["kind"] not in ("Status",):
        print("no message for", name, file=sys.stderr)

queue += [OLDER + kind + suffix for kind in ("ResourceClaim", "ResourceClaimTemplate", "ResourceSlice")
          for suffix in ("", "List")]
done = {}
while queue:
    name = queue.pop()
    if name in done or name not in wanted:
        continue
    full = wanted[name]
    kind = name.rsplit(".", 1)[-1]
    fields = []
    for proto, (number, ty, label) in sorted(messages[full].items(), key=lambda item: item[1][0]):
        ty, suffix = field_type(full, ty, label)
        if "." in ty:
            ty = versioned(short(ty))
            queue.append(ty)
        if (kind, proto) in INLINED:
            suffix = ">"
        fields.append(f"{number}:{RENAMED.get(kind, {}).get(proto, proto)}:{ty}{suffix}")
    done[name] = " ".join([name] + fields)
for name in sorted(done):
    print(done[name])
