"""Reads fields of kinds that have no schema here, and says what is missing, misspelt or of another type."""

from collections.abc import Collection
from dataclasses import dataclass, field

from scheduler.simulation.manifests import api_validation, formats
from scheduler.simulation.manifests.fields import Body, FieldError, is_number, mapping, metadata, spec, text
from scheduler.simulation.manifests.strict_fields import closest, expected


@dataclass
class FieldReader:
    """Reads parts of an object by name, and collects the `errors` by the API of a `minor` version."""

    minor: int
    errors: list[FieldError] = field(default_factory=list)
    _meant: set[str] = field(default_factory=set)

    def say(self, at: str, message: str) -> None:
        """Add an error."""
        self.errors.append(FieldError(at, message))

    def names(self, holder: Body, at: str, *known: str) -> None:
        """Name the fields that are nearly those of some names."""
        for name in holder:
            meant = "" if name in known else closest(name, known)
            if meant:
                self._meant.add(f"{at}.{meant}")
                self.say(f"{at}.{name}", f"there is no such field: did you mean {meant}?")

    def part(self, holder: Body, at: str, name: str, needed: str = "") -> Body:
        """Return a mapping; `needed` says what to write where it is missing."""
        found = holder.get(name)
        if found is not None and not isinstance(found, dict):
            self.say(f"{at}.{name}", expected("a mapping", found))
        elif not found and needed:
            self._miss(f"{at}.{name}", needed)
        return mapping(found)

    def items(self, holder: Body, at: str, name: str, needed: str = "") -> list[tuple[str, Body]]:
        """Return the mappings in a list with their paths; `needed` says what to write where there are none."""
        found, path = holder.get(name), f"{at}.{name}"
        if found is not None and not isinstance(found, list):
            self.say(path, expected("a list", found))
            return []
        if not found and needed:
            self._miss(path, needed)
        parts = [(f"{path}[{index}]", each) for index, each in enumerate(found or ())]
        for where, each in parts:
            if not isinstance(each, dict):
                self.say(where, expected("a mapping", each))
        return [(where, each) for where, each in parts if isinstance(each, dict)]

    def titles(self, parts: Collection[tuple[str, Body]], name: str) -> None:
        """Hold the names of parts to be there, to be parts of names of pods, and to be different."""
        known: dict[str, str] = {}
        for at, each in parts:
            found = each.get(name)
            if found is None or found == "":
                self._miss(f"{at}.{name}", "write a name")
            elif not isinstance(found, str):
                self.say(f"{at}.{name}", expected("a text", found))
            elif wrong := formats.label(found):
                self.say(f"{at}.{name}", wrong)
            elif known.setdefault(found, at) != at:
                self.say(f"{at}.{name}", f"{found} is the name of {known[found]}, too: write another one")

    def count(self, holder: Body, at: str, name: str, *, least: int = 0) -> None:
        """Hold a field to a whole number, where it is set."""
        found = holder.get(name)
        if found is None:
            return
        if not is_number(found):
            quoted = ": leave out the quotes" if text(found).isdecimal() else ""
            self.say(f"{at}.{name}", f"{expected('a whole number', found)}{quoted}")
        elif found < least:
            self.say(f"{at}.{name}", f"is {found}: write {least} or more")

    def pods(self, holder: Body, at: str, name: str) -> None:
        """Hold a pod template to the rules of pods."""
        template, path = self._template(holder, at, name), f"{at}.{name}"
        if template:
            self._check(
                {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}, "spec.template", path
            )
            self._containers(template, path)

    def job(self, holder: Body, at: str, name: str) -> None:
        """Hold the template of an indexed Job to the rules of Jobs."""
        template, path = self._template(holder, at, name), f"{at}.{name}"
        if template:
            terms = {"spec": {"completionMode": "Indexed", **spec(template)}} if spec(template) else {}
            body = {"schedule": "* * * * *", "jobTemplate": template | terms}
            self._check({"apiVersion": "batch/v1", "kind": "CronJob", "spec": body}, "spec.jobTemplate", path)
            self._containers(mapping(spec(template).get("template")), f"{path}.spec.template")

    def claims(self, holder: Body, at: str, name: str) -> None:
        """Hold templates of volume claims to the rules of claims, and to have names."""
        parts = self.items(holder, at, name)
        for path, each in parts:
            self.titles([(f"{path}.metadata", metadata(each))], "name")
            claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": each.get("spec", {})}
            self._check(claim, "spec", f"{path}.spec")

    def _template(self, holder: Body, at: str, name: str) -> Body:
        return self.part(holder, at, name, "write the pods that are to be made")

    def _check(self, body: Body, inner: str, path: str) -> None:
        """Add the errors in a part of an object, at the path that it has here."""
        for each in api_validation.of_object({**body, "metadata": {"name": "x", "namespace": "x"}}, self.minor):
            if each.field.startswith(inner):
                self.say(f"{path}{each.field.removeprefix(inner)}", each.message)

    def _containers(self, template: Body, path: str) -> None:
        """Hold a template to have containers; where it has no spec, or one of another type, that is said."""
        pod = template.get("spec", {})
        if template and isinstance(pod, dict) and pod.get("containers", []) == []:
            self._miss(f"{path}.spec.containers", "write at least one")

    def _miss(self, path: str, needed: str) -> None:
        """Say that a field is missing, unless it stands there misspelt."""
        if path not in self._meant:
            self.say(path, f"missing: {needed}")
