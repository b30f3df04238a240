"""What holds for all tests."""

import signal

# A shell without job control starts what is in the background with Ctrl-C ignored, and so would be
# all that the tests start and interrupt. A signal that has a handler here is a child's default.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
