"""The guard for settled's own commands: ``settled worker --app bench.travel.app:guard``."""

from bench.travel.desk import open_guard
from bench.travel.orders import Orders

guard = open_guard(Orders.read())
