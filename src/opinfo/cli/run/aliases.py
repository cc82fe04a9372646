"""Commands that have another name now; the old one works for one release."""

from __future__ import annotations

#: Of an old command: the new one, what it always says, and its options that are called otherwise.
ALIASES = {"specialize": ("compile", "--shapes", "jit", {"--strategy": "--shapes"})}


def renamed(words: list[str]) -> tuple[list[str], str]:
    """The command line in the words of today, and a warning where they are others.

    >>> renamed(["specialize", "m.onnx", "--strategy", "aot"])[0]
    ['compile', 'm.onnx', '--shapes', 'aot']
    """
    if not words or words[0] not in ALIASES:
        return words, ""
    command, option, value, options = ALIASES[words[0]]
    rest = []
    for word in words[1:]:
        name, equals, text = word.partition("=")
        rest.append(options.get(name, name) + equals + text)
    if not any(word.split("=")[0] == option for word in rest):
        rest = [option, value, *rest]
    warning = f"`opinfo {words[0]}` is `opinfo {command} {option}` now; the old name goes with the "
    return [command, *rest], warning + "next release"
