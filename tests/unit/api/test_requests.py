"""Bodies, arguments, versions, steps, config drives and error bodies by themselves."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace

import pytest
import webob.exc

from ironic_rs.api import args, body, configdrive, errors, link_connection, microversions, steps
from ironic_rs.api.args import Arg
from ironic_rs.domain import errors as domain_errors
from ironic_rs.domain.fields import BadValue
from ironic_rs.domain.fields.kinds import Boolean, Integer


def environ(data: bytes, **extra):
    return {"wsgi.input": io.BytesIO(data), "CONTENT_LENGTH": str(len(data)), **extra}


class TestBody:
    def test_an_empty_body_is_an_empty_object(self):
        assert body.parse(b"", 25) == {}
        assert body.parse(b" \n", 25) == {}

    @pytest.mark.parametrize("length", ["x", "-1", "٣", "1.5"])
    def test_a_bad_length_is_refused(self, length):
        with pytest.raises(errors.MalformedBody):
            body.read({"wsgi.input": io.BytesIO(b"{}"), "CONTENT_LENGTH": length}, 100)

    def test_an_announced_body_above_the_limit_is_not_read(self):
        source = io.BytesIO(b"x" * 200)
        with pytest.raises(errors.BodyTooLarge):
            body.read({"wsgi.input": source, "CONTENT_LENGTH": "200"}, 100)
        assert source.tell() == 0

    def test_a_chunked_body_is_read_to_its_limit(self):
        chunked = {"wsgi.input": io.BytesIO(b"[1, 2]"), "wsgi.input_terminated": True}
        assert body.read(chunked, 100) == b"[1, 2]"
        chunked = {"wsgi.input": io.BytesIO(b"x" * 10**6), "wsgi.input_terminated": True}
        with pytest.raises(errors.BodyTooLarge):
            body.read(chunked, 100)

    def test_a_body_that_ends_early_is_refused(self):
        with pytest.raises(errors.MalformedBody, match="after 2 of the 10 bytes"):
            body.read({"wsgi.input": io.BytesIO(b"{}"), "CONTENT_LENGTH": "10"}, 100)

    def test_chunks_that_nobody_puts_together_are_no_empty_body(self):
        chunked = {"wsgi.input": io.BytesIO(b""), "HTTP_TRANSFER_ENCODING": "chunked"}
        with pytest.raises(errors.LengthRequired, match="Content-Length") as caught:
            body.read(chunked, 100)
        assert caught.value.code == 411

    def test_without_a_length_there_is_no_body(self):
        assert body.read({"wsgi.input": io.BytesIO(b"junk")}, 100) == b""

    @pytest.mark.parametrize(("depth", "fits"), [(25, True), (26, False), (2000, False)])
    def test_depth(self, depth, fits):
        data = b"[" * depth + b"]" * depth
        if fits:
            assert body.parse(data, 25)
        else:
            with pytest.raises(errors.BodyTooDeep):
                body.parse(data, 25)

    @pytest.mark.parametrize("number", [2**64 - 1, -(2**63), 2**53 + 1])
    def test_integers_of_64_bits_stay_exact(self, number):
        assert body.parse(str(number).encode(), 25) == number

    @pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30])
    def test_larger_integers_are_refused(self, number):
        with pytest.raises(errors.MalformedBody, match="64 bits"):
            body.parse(json.dumps({"a": number}).encode(), 25)

    def test_long_digits_in_text_are_fine(self):
        assert body.parse(b'"' + b"9" * 50 + b'"', 25) == "9" * 50

    @pytest.mark.parametrize(
        ("path", "kib"),
        [
            ("/v1/nodes", 1024),
            ("/v1/nodes/x/states/provision/", 65536),
            ("/v1/continue_inspection", 16384),
        ],
    )
    def test_limits_by_path(self, path, kib):
        api = SimpleNamespace(
            max_json_body_size=1024,
            max_json_body_size_provision=65536,
            max_json_body_size_inspection=16384,
        )
        assert body.size_limit(SimpleNamespace(api=api), path) == kib * 1024

    def test_what_orjson_can_not_write_is_written_anyway(self):
        assert json.loads(body.dump({"a": 2**70, "b": "\ud800"})) == {"a": 2**70, "b": "\ud800"}


class TestArguments:
    SPECS = (
        Arg("flag", Boolean()),
        Arg("limit", Integer(minimum=1)),
        Arg("names", args.LIST, since=10),
        Arg("must", args.TEXT, required=True),
        Arg("old", args.TEXT, since=50, below=400, default="x"),
    )

    def test_values_are_converted_and_defaults_filled_in(self):
        assert args.parse(self.SPECS, {"flag": "ON", "limit": "5", "must": "m"}, 100) == {
            "flag": True,
            "limit": 5,
            "names": None,
            "must": "m",
            "old": "x",
        }

    def test_lists_join_both_spellings(self):
        found = args.parse(self.SPECS, {"names": ["a, b", "", "b,,c"], "must": ""}, 100)
        assert found["names"] == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("given", "minor", "error", "text"),
        [
            ({}, 100, domain_errors.MissingParameterValue, "must"),
            ({"must": None}, 100, domain_errors.MissingParameterValue, "must"),
            ({"must": "m", "x": 1}, 100, domain_errors.InvalidParameterValue, "x; accepted here"),
            ({"must": "m", "limit": 0}, 100, domain_errors.InvalidParameterValue, "0 of arg"),
            ({"must": "m", "names": "a"}, 9, domain_errors.NotAcceptable, "1.10 or newer"),
            ({"must": "m", "old": "a"}, 9, domain_errors.InvalidParameterValue, "1.50 or newer"),
        ],
    )
    def test_refusals_say_what_and_what_else(self, given, minor, error, text):
        with pytest.raises(error, match=text):
            args.parse(self.SPECS, given, minor)

    def test_null_is_absent_in_every_version(self):
        assert args.parse(self.SPECS, {"must": "m", "names": None}, 1)["names"] is None

    def test_fields_are_folded(self):
        assert args.NAMES.convert("UUID, Name,uuid") == ["uuid", "name"]


class TestVersions:
    @pytest.mark.parametrize(
        ("headers", "minor"),
        [
            ({}, 1),
            ({"HTTP_X_OPENSTACK_IRONIC_API_VERSION": ""}, 1),
            ({"HTTP_X_OPENSTACK_IRONIC_API_VERSION": " 1.20 "}, 20),
            ({"HTTP_X_OPENSTACK_IRONIC_API_VERSION": "LaTeSt"}, 115),
            ({"HTTP_OPENSTACK_API_VERSION": "baremetal 1.50"}, 50),
            ({"HTTP_OPENSTACK_API_VERSION": "compute 2.1,baremetal latest"}, 115),
            ({"HTTP_OPENSTACK_API_VERSION": "compute 2.1"}, 1),
        ],
    )
    def test_requested(self, headers, minor):
        assert microversions.negotiate(headers) == minor

    @pytest.mark.parametrize(
        "wanted", ["1.0", "1.116", "2.0", "0.9", "1", "1.", "1.2.3", "-1", "1.٣", "1.1x", "9" * 99]
    )
    def test_refused(self, wanted):
        with pytest.raises(microversions.UnsupportedVersion):
            microversions.negotiate({"HTTP_X_OPENSTACK_IRONIC_API_VERSION": wanted})

    def test_each_version_is_listed_once_and_in_order(self):
        values = [int(v) for v in microversions.V]
        assert values == sorted(set(values))
        assert values[-1] <= microversions.MAXIMUM


class TestSteps:
    def test_numbers_as_text_become_numbers(self):
        step = {"interface": "deploy", "step": "s", "args": {}, "priority": "10"}
        assert steps.check([step], steps.DEPLOY)[0]["priority"] == 10

    @pytest.mark.parametrize(
        ("step", "text"),
        [
            (5, "not an object"),
            ({}, "interface is missing"),
            ({"interface": "deploy"}, "step is missing"),
            ({"interface": "deploy", "step": ""}, "step is ''"),
            ({"interface": "network", "step": "s"}, "interface is 'network'; accepted: one of"),
            ({"interface": "deploy", "step": "s", "args": None}, "args is None"),
            ({"interface": "deploy", "step": "s", "priority": 1}, "unknown key 'priority'"),
            ({"interface": "deploy", "step": "s", "order": -1}, "order is -1"),
            ({"interface": "deploy", "step": "s", "order": True}, "order is True"),
        ],
    )
    def test_refusals_name_step_and_key(self, step, text):
        with pytest.raises(domain_errors.InvalidParameterValue, match=f"clean step 0: .*{text}"):
            steps.check([step], steps.CLEAN)

    def test_service_steps_of_networks_are_accepted(self):
        assert steps.check([{"interface": "network", "step": "s"}], steps.SERVICE)

    def test_disallowed_steps(self):
        with pytest.raises(domain_errors.StepNotAllowed, match=r"vendor\.send_raw.*disallow"):
            steps.check_disallowed(
                [{"interface": "vendor", "step": "send_raw"}], ["vendor.send_raw"], "disallow"
            )

    def test_rules_of_malformed_steps_are_not_looked_for(self):
        assert steps.policy_rules([5, {"interface": "a", "step": "b"}]) == (
            "baremetal:step:execute:a.b",
        )
        assert steps.policy_rules("x") == ()


class FakeCall:
    """The version of a call, and nothing else of it."""

    def __init__(self, minor: int) -> None:
        self.minor = minor

    def has(self, minor: int) -> bool:
        return self.minor >= minor

    def require(self, minor: int, what: str, status: int = 406) -> None:
        if self.minor < minor:
            raise args.too_new(what, minor, self.minor, status)


class TestConfigdrive:
    @pytest.mark.parametrize("value", [None, "", {}])
    def test_nothing(self, value):
        assert configdrive.check(FakeCall(1), value, "provide") is None

    @pytest.mark.parametrize("value", ["http://x/y", "YWJj\n", {"meta_data": {}, "user_data": []}])
    def test_accepted(self, value):
        assert configdrive.check(FakeCall(115), value, "active") == value

    @pytest.mark.parametrize(
        ("value", "target", "minor"),
        [
            ("abc", "rebuild", 34),
            ("abc", "clean", 115),
            ("a b!", "active", 115),
            ({"meta_data": {}}, "active", 55),
            ({"vendor_data": {}}, "active", 58),
            ({"x": {}}, "active", 115),
            ({"user_data": 5}, "active", 115),
        ],
    )
    def test_refused(self, value, target, minor):
        with pytest.raises(domain_errors.InvalidParameterValue):
            configdrive.check(FakeCall(minor), value, target)

    @pytest.mark.parametrize("value", [5, 0, False, True, [], ["x"]])
    def test_other_types_are_never_taken(self, value):
        with pytest.raises(BadValue, match="a URL, base64 text or an object"):
            configdrive.ConfigDrive().convert(value)


class TestLinkConnection:
    @pytest.mark.parametrize(
        "value",
        [
            {"port_id": "p", "switch_id": "0A:1B:2C:3D:4E:5F"},
            {"port_id": "p", "hostname": "h"},
            {"network_type": "unmanaged"},
            {"port_id": "p", "switch_id": "0123456789ABCDEF", "network_type": "managed"},
        ],
    )
    def test_accepted(self, value):
        checked = link_connection.check(FakeCall(115), value)
        assert checked.get("switch_id", "") == value.get("switch_id", "").lower()

    @pytest.mark.parametrize(
        ("value", "code"),
        [
            ({"port_id": "p"}, 400),
            ({"x": "y"}, 400),
            ({"port_id": 5, "hostname": "h"}, 400),
            ({"port_id": "p", "switch_id": "switch"}, 400),
            ({"network_type": "x"}, 400),
            ({"network_type": "managed"}, 400),
        ],
    )
    def test_refused(self, value, code):
        with pytest.raises(domain_errors.Invalid):
            link_connection.check(FakeCall(115), value)

    def test_network_type_needs_its_version(self):
        with pytest.raises(domain_errors.NotAcceptable):
            link_connection.check(FakeCall(63), {"network_type": "unmanaged"})


CONF = SimpleNamespace(debug_tracebacks_in_api=False)
ENVIRON = {"REQUEST_METHOD": "GET", "PATH_INFO": "/v1/nodes"}


class TestErrors:
    def inner(self, exc, **extra):
        answer = errors.response(exc, CONF, {**ENVIRON, **extra})
        return answer, json.loads(answer.json["error_message"])

    def test_a_fault(self):
        answer, fault = self.inner(domain_errors.NodeNotFound(node="n"))
        assert answer.status_int == 404
        assert fault["faultcode"] == "Client"
        assert fault["debuginfo"] is None
        assert fault["errorcode"] == answer.headers[errors.CODE_HEADER] == "node_not_found"

    def test_the_code_of_the_other_side_counts(self):
        exc = domain_errors.NoValidHost(reason="x")
        exc.code = 400
        assert self.inner(exc)[0].status_int == 400

    def test_an_unknown_code_is_500(self):
        exc = domain_errors.NodeNotFound(node="n")
        exc.code = 999
        assert self.inner(exc)[0].status_int == 500

    def test_remote_tracebacks_are_cut(self):
        text = "It failed.\nTraceback (most recent call last):\n  File x"
        assert self.inner(domain_errors.Conflict(text))[1]["faultstring"] == "It failed."

    def test_locks_and_busy_services_say_when_to_come_again(self):
        locked, _ = self.inner(domain_errors.NodeLocked(node="n", host="h"))
        assert locked.headers["Retry-After"] == "1"
        busy, _ = self.inner(domain_errors.NoFreeConductorWorker())
        assert busy.headers["Retry-After"] == "5"
        other, _ = self.inner(domain_errors.NodeAssociated(node="n", instance="i"))
        assert "Retry-After" not in other.headers

    def test_texts_that_are_no_unicode_are_shown_anyway(self):
        assert "?" in self.inner(domain_errors.Conflict("a\ud800b"))[1]["faultstring"]

    def test_errors_of_pecan_have_the_routers_form(self):
        _, fault = self.inner(webob.exc.HTTPNotAcceptable())
        assert (fault["code"], fault["title"]) == (406, "Not Acceptable")

    def test_who_wants_no_json_gets_text_in_the_envelope(self):
        answer = errors.response(
            errors.RouterError(404, "nothing"),
            CONF,
            {**ENVIRON, "HTTP_ACCEPT": "text/html"},
        )
        assert answer.json["error_message"] == "404 Not Found\n\nnothing"

    def test_bad_encodings_are_the_clients_fault(self):
        exc = UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")
        assert self.inner(exc)[0].status_int == 400
