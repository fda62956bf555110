"""The wheel's extension is the one that Bazel has built; see pyproject.toml."""

import pathlib
import shutil

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

BUILT = pathlib.Path(__file__).resolve().parent / "_tensord.so"


class Copied(build_ext):
    """Gives the extension its place and its name for this Python."""

    def build_extension(self, ext: Extension) -> None:
        if not BUILT.exists():
            raise SystemExit(f"setup.py: there is no {BUILT}; tools/package/build builds the wheel")
        target = pathlib.Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(BUILT, target)


setup(ext_modules=[Extension("_tensord", sources=[])], cmdclass={"build_ext": Copied})
