"""Commands that explain options which they do not have."""

from typing import Any

from typer.core import TyperCommand

from cliffordstf.errors import ConfigError
from cliffordstf.options.text import nearest_of
from cliffordstf.train.config import option_paths
from cliffordstf.train.foreign import find_option


class TrainCommand(TyperCommand):
    """A command whose unknown flags may be options of the config, here or in another package."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse, and explain a flag that does not exist."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            # By name: some versions of typer use click, others a copy of it.
            if type(error).__name__ != "NoSuchOption":
                raise
            raise ConfigError(self._explain(str(getattr(error, "option_name", "")))) from None

    def _explain(self, flag: str) -> str:
        own = [name for parameter in self.params for name in parameter.opts if name.startswith("--")]
        near = nearest_of(flag, own)
        option = find_option(flag, option_paths())
        if option is not None:
            name, _, value = option.partition("=")
            return f"there is no option {flag}; here it is '{name}', as in {name}={value or 'VALUE'} after the files."
        suggestion = f" (did you mean '{near}'?)" if near else ""
        return f"there is no option {flag}{suggestion}; 'cliffordstf train --help' and '--show-config' list them all."
