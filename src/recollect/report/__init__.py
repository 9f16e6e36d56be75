"""What a run found, on one page that needs nothing but the run folder."""

from recollect.report.comparison_page import write_comparison
from recollect.report.grid import pair_grid
from recollect.report.listing import write_matches_parquet
from recollect.report.page import write_report
from recollect.report.pictures import write_pictures
from recollect.report.series_page import write_series_report

__all__ = [
    "pair_grid",
    "write_comparison",
    "write_matches_parquet",
    "write_pictures",
    "write_report",
    "write_series_report",
]
