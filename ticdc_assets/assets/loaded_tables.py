"""The tables that get assets where no state names them: those of the lake at the load of the code location."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from dagster._core.definitions.definitions_load_context import DefinitionsLoadContext, DefinitionsLoadType

from ticdc_assets.assets.known_tables import KnownTable, as_state, of_state, tables_of_lake
from ticdc_assets.faults import redacted_error

if TYPE_CHECKING:
    from ticdc_assets.config import Changefeed, Config

_KEY: Final = "ticdc_assets/{}"
_LOG: Final = logging.getLogger(__name__)


def loaded_tables(config: Config, changefeed: Changefeed) -> tuple[KnownTable, ...]:
    """The tables of the lake, read once: the processes of runs get those of the code server that started them.

    Where the catalog cannot be read, the code location loads without tables, so that its sensors and runs go on as soon
    as it can; the log and the check `tables_have_assets` say so.
    """
    context, key = DefinitionsLoadContext.get(), _KEY.format(changefeed.name)
    if context.load_type is DefinitionsLoadType.RECONSTRUCTION and key in context.reconstruction_metadata:
        text = str(context.reconstruction_metadata[key])
        context.add_to_pending_reconstruction_metadata(key, text)
        return of_state(text)[changefeed.name]
    try:
        tables = tables_of_lake(config, changefeed)
    except Exception as error:  # noqa: BLE001  libraries of catalogs raise anything
        _LOG.warning(
            "%s has no assets of tables until the code location is reloaded: %s", changefeed.name, redacted_error(error)
        )
        return ()
    context.add_to_pending_reconstruction_metadata(key, as_state({changefeed.name: tables}))
    return tables
