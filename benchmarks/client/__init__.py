"""The Python client beside the official clients and beside Python clients of Kafka."""
