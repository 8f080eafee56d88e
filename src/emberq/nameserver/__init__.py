"""The name server: brokers register here, clients ask here where topics live."""
