"""Who decides what Spark logs."""

from pathlib import Path

from emberq.pipelines.quiet_logs import FILE, quiet_conf, warning_conf


def test_the_jvm_starts_with_a_configuration_of_ours(tmp_path: Path) -> None:
    [(key, option)] = quiet_conf({"SPARK_HOME": str(tmp_path)}).items()

    assert key == "spark.driver.defaultJavaOptions"
    file = Path(option.removeprefix("-Dlog4j2.configurationFile=file://"))
    assert "rootLogger.level = error" in file.read_text()


def test_a_configuration_of_the_users_is_kept(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / FILE).write_text("")

    assert quiet_conf({"SPARK_HOME": str(tmp_path)}) == {"spark.log.level": "ERROR"}
    assert quiet_conf({"SPARK_CONF_DIR": "/etc/spark"}) == {"spark.log.level": "ERROR"}


def test_the_driver_of_a_cluster_warns(tmp_path: Path) -> None:
    [option] = warning_conf({"SPARK_HOME": str(tmp_path)}).values()

    file = Path(option.removeprefix("-Dlog4j2.configurationFile=file://"))
    assert "rootLogger.level = warn" in file.read_text()
    assert warning_conf({"SPARK_CONF_DIR": "/etc/spark"}) == {}
