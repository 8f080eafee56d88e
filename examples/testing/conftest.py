pytest_plugins = ["emberq.testing.pytest_plugin"]
