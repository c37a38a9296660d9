"""Work that a conductor does by the clock.

:mod:`framework` schedules it; the other modules are the tasks of the conductor
itself, and interfaces of drivers declare theirs with
:func:`ironic_rs.drivers.decorators.node_periodic`.
"""
