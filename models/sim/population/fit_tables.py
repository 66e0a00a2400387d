"""The public tables behind the fit: their paths, origins and licences, and how to read them.

The raw data stay outside the repository; only the fitted parameters are committed.
"""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from models.cluster.arrays import F64
from models.inputs.errors import input_error
from models.sim.population.fitted import Provenance

IBM: Final = "sim/ibm_code_engine_app_configs.csv.gz"
AZURE_DURATIONS: Final = "sim/azure2019_fn500_durations_memory.csv.gz"
AZURE_PROFILES: Final = "dev/azure2019_fn_profile14d_1min.parquet"
AZURE_DAY: Final = "dev/azure2019_fn_1day_1min.csv.gz"
ALIBABA_SERVICES: Final = "sim/alibaba_v2022_callgraph_services.csv.gz"
ALIBABA_EDGES: Final = "dev/alibaba_v2022_callgraph_edges.csv.gz"
WORLDCUP: Final = "dev/worldcup98_1min.csv.gz"
NASA: Final = "dev/nasa95_1min.csv.gz"
BOOTS: Final = "sim/ncu_vm_boot_time.csv.gz"

_AZURE_LICENCE = "CC-BY 4.0 (Azure Functions 2019)"
_NOT_STATED = "none stated"
_ORIGIN: Final[dict[str, tuple[str, str]]] = {
    IBM: ("ubc-cirrus-lab/ibm-cloud-code-engine-traces@121e05a5", "MIT"),
    AZURE_DURATIONS: ("vhive-serverless/invitro@163911a8", _AZURE_LICENCE),
    AZURE_PROFILES: ("vhive-serverless/invitro@5639c9d0,4faeaac8", _AZURE_LICENCE),
    AZURE_DAY: ("vhive-serverless/invitro@457ee780,b12de00f", _AZURE_LICENCE),
    ALIBABA_SERVICES: ("dufanrong/DGG@82db6dce", "none stated; see alibaba/clusterdata"),
    ALIBABA_EDGES: ("dufanrong/DGG@82db6dce", "none stated; see alibaba/clusterdata"),
    WORLDCUP: (
        "nimamahmoudi/worldcup98-dataset@82460213",
        "MIT; logs (c) HP 1997-99, free use with attribution (Arlitt & Jin)",
    ),
    NASA: (
        "reconfigurable-ml-pipeline/web-service-datasets@7404ad66",
        "none stated; the archive's traces may be freely redistributed",
    ),
    BOOTS: ("SamFu1113/NCU-VMDataset@e2fec87e", _NOT_STATED),
}


class Table:
    """One file, by column."""

    def __init__(self, traces: Path, file: str) -> None:
        self._table = _read(traces / file)

    def numbers(self, column: str) -> F64:
        """A numeric column; absent values become NaN."""
        values = self._table[column].to_numpy(zero_copy_only=False)
        return np.asarray(values, dtype=np.float64)

    def words(self, column: str) -> NDArray[np.str_]:
        """A text column."""
        return np.array(self._table[column].to_pylist(), dtype=np.str_)

    def minutes(self) -> F64:
        """[rows, 1440] counts, from the columns m0000..m1439."""
        return np.stack([self.numbers(f"m{minute:04d}") for minute in range(1440)], axis=1)

    def lists(self, column: str) -> F64:
        """[rows, n] values of a column of lists with one length."""
        flat = np.asarray(self._table[column].combine_chunks().flatten(), dtype=np.float64)
        return flat.reshape(self._table.num_rows, -1)


def provenance(file: str, rows: int, statistic: str) -> Provenance:
    """The origin of a section fitted to `file`."""
    origin, licence = _ORIGIN[file]
    return Provenance(
        file=file, origin=origin, licence=licence, rows=int(rows), statistic=statistic
    )


def _read(file: Path) -> Any:
    try:
        if file.suffix == ".parquet":
            return pyarrow.parquet.read_table(file)
        return pyarrow.csv.read_csv(file)
    except OSError:
        raise input_error(file, "", "cannot be read") from None
    except pyarrow.ArrowInvalid as error:
        raise input_error(file, "", f"not a table: {str(error).splitlines()[0]}") from None
