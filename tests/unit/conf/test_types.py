"""Values of options that oslo.config has no type for."""

from __future__ import annotations

import pytest

from ironic_rs.conf.types import FileMode, ImageDirectory, KernelParameters, parse_kernel_parameters


def test_kernel_parameters_become_a_map_with_none_for_bare_keys():
    assert parse_kernel_parameters("nofb vga=normal  ipa.x-y=a,b=c") == {
        "nofb": None,
        "vga": "normal",
        "ipa.x-y": "a,b=c",
    }


def test_a_quoted_value_may_hold_blanks():
    assert parse_kernel_parameters('dyndbg="file a.c +p" quiet') == {
        "dyndbg": "file a.c +p",
        "quiet": None,
    }


def test_the_first_of_repeated_keys_is_kept():
    assert parse_kernel_parameters("console=tty0 console=ttyS0") == {"console": "tty0"}


@pytest.mark.parametrize("text", ["quiet -- --single x=y", "quiet --", "quiet\t--\tz"])
def test_arguments_for_init_are_accepted_and_left_out(text):
    assert parse_kernel_parameters(text) == {"quiet": None}


@pytest.mark.parametrize("text", ["", "   ", "\n", "-- init only"])
def test_nothing_is_an_empty_map(text):
    assert parse_kernel_parameters(text) == {}


@pytest.mark.parametrize("text", ["a b=c d", " a", "a ", "a=", "a=\t"])
def test_blanks_around_and_empty_values_are_accepted(text):
    assert "a" in parse_kernel_parameters(text)


@pytest.mark.parametrize("text", ['a="b', "=b", "a b$c", 'a=b"c"', 'a="b"c', "a;b", "é=1"])
def test_malformed_parameters_are_refused_with_the_place(text):
    with pytest.raises(ValueError, match="malformed kernel parameters at"):
        parse_kernel_parameters(text)


def test_line_breaks_cannot_be_smuggled_in():
    assert KernelParameters()("a=b\r\nc\0d") == "a=bcd"


def test_an_image_directory_is_kept_as_written():
    assert ImageDirectory()("/var/lib/ironic/") == "/var/lib/ironic/"


@pytest.mark.parametrize("path", ["images", "./x", ""])
def test_a_relative_image_directory_is_refused(path):
    with pytest.raises(ValueError, match="not an absolute path"):
        ImageDirectory()(path)


def test_an_image_directory_with_dots_is_refused():
    with pytest.raises(ValueError, match=r"must not contain '\.\.'"):
        ImageDirectory()("/var/lib/../../etc")


@pytest.mark.parametrize("path", ["/etc", "/proc/1", "/dev/", "//etc/x", "///run", "/boot/./efi"])
def test_system_directories_are_refused(path):
    with pytest.raises(ValueError, match="under the system directory"):
        ImageDirectory()(path)


def test_a_directory_that_only_looks_like_a_system_one_is_accepted():
    assert ImageDirectory()("/etcetera/x") == "/etcetera/x"


@pytest.mark.parametrize("text", ["0o644", "644", "0644"])
def test_a_file_mode_is_octal_in_every_notation(text):
    assert FileMode()(text) == 0o644


def test_a_file_mode_that_is_not_octal_is_refused():
    with pytest.raises(ValueError, match="octal"):
        FileMode()("0o689")
