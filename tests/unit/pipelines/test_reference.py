"""The reference says what the classes say."""

from pathlib import Path

from emberq.pipelines.reference import render

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "spark-jobs.md"


def test_the_page_is_what_the_jobs_say() -> None:
    wanted = render()

    assert PAGE.read_text() == wanted, (
        "write it anew: python -c 'from emberq.pipelines.reference import render; print(render(), "
        f'end="")\' > {PAGE}'
    )
