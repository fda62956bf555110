"""Comparisons of two results, many computed by one program of a daemon."""

import re

import tensord
from oracle import Disagreement, NotApplicable, check_form, check_values

TOGETHER = 48  # comparisons that one program serves
TIMEOUT = 60  # seconds that one program may take


class Comparison:
    """`make` returns what is expected and what we got, as lists of tensors and numbers; it is called again if the
    daemon is lost. `reason` says why they differ, None that they agree; `counted` whether there was anything to compare.
    """

    def __init__(self, make, rtol, atol, form_only=False):
        self.make, self.rtol, self.atol, self.form_only = make, rtol, atol, form_only
        self.reason, self.counted = None, True
        self.expected = self.got = ()

    def build(self):
        """Whether there is something to compute."""
        try:
            self.expected, self.got = self.make()
            if len(self.expected) != len(self.got):
                raise Disagreement(f"number of results: {len(self.got)} for {len(self.expected)}")
            for want, have in zip(self.expected, self.got):
                check_form(want, have)
        except Exception as error:
            self.record(error)
            return False
        return True

    def compare(self):
        """Whether it was computed, and so judged."""
        try:
            for want, have in zip(self.expected, self.got):
                have = have.numpy() if isinstance(have, tensord.Tensor) else have
                if not self.form_only:
                    check_values(want, have, self.rtol, self.atol)
            self.reason = None
        except Exception as error:
            self.record(error)
            return isinstance(error, Disagreement)
        return True

    def record(self, error):
        if isinstance(error, (tensord.errors.UnavailableError, tensord.errors.DeadlineExceededError)):
            raise Lost from error
        self.counted = not isinstance(error, NotApplicable)
        self.reason = str(error) if isinstance(error, Disagreement) else f"{type(error).__name__}: {first_line(error)}"


class Lost(Exception):
    """The daemon died, or is stuck."""


class Judge:
    """Runs comparisons by a daemon, which it starts again when it is lost."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.connect()

    def connect(self):
        self.client = tensord.connect(self.daemon.address, timeout=TIMEOUT)

    def restart(self):
        if self.daemon.process.poll() is None:
            self.daemon.kill()
        self.daemon.start()
        self.connect()

    def run(self, comparisons):
        for begin in range(0, len(comparisons), TOGETHER):
            self.together(comparisons[begin : begin + TOGETHER])

    def together(self, comparisons):
        """Computes them by one program, and again each by its own if that failed."""
        try:
            built = [comparison for comparison in comparisons if comparison.build()]
            try:
                tensord.realize(
                    *(leaf for comparison in built for leaf in comparison.got if isinstance(leaf, tensord.Tensor))
                )
            except tensord.TensordError:
                pass  # each finds out for itself
            failed = [comparison for comparison in built if not comparison.compare()]
        except Lost:
            self.restart()
            failed = comparisons
            if len(comparisons) == 1:
                comparisons[0].reason = "the daemon ended, or took more than a minute"
        if len(comparisons) > 1:
            for comparison in failed:
                self.together([comparison])


def first_line(error):
    text = str(error).strip()
    if "incompatible function arguments" in text:
        called, given = text.split("(")[0], text[text.find("Invoked with:") + len("Invoked with: ") :].splitlines()[0]
        return f"arguments refused: {called} {re.sub(r'Tensor[(]shape=[(][^)]*[)][^)]*[)]', 'Tensor', given)}"
    return text.splitlines()[0] if text else ""
