"""Old names of commands, which work for one more release."""

from __future__ import annotations

#: For an old command: the new one, an option to add with its value, and renamed options.
ALIASES = {"specialize": ("compile", "--shapes", "jit", {"--strategy": "--shapes"})}


def renamed(words: list[str]) -> tuple[list[str], str]:
    """Translate old names in a command line; also return a warning, empty without any.

    >>> renamed(["specialize", "m.onnx", "--strategy", "aot"])[0]
    ['compile', 'm.onnx', '--shapes', 'aot']
    """
    if not words or words[0] not in ALIASES:
        return words, ""
    command, option, value, options = ALIASES[words[0]]
    translated = []
    for word in words[1:]:
        name, equals, text = word.partition("=")
        translated.append(options.get(name, name) + equals + text)
    if not any(word.split("=")[0] == option for word in translated):
        translated = [option, value, *translated]
    warning = (
        f"`opinfo {words[0]}` is now `opinfo {command} {option}`; the old name is removed in the "
    )
    return [command, *translated], warning + "next release"
