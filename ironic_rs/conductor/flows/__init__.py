"""What a conductor does with a node, one module per flow.

Every function takes a task that holds the exclusive lock.  A flow decides the
provision state; drivers only return or raise.  A flow never raises because the
machine failed: it records the failure and moves the node to the failed state.
``LockLost`` always propagates: the node belongs to somebody else by then.
"""
