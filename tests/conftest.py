import signal

# A shell's background job ignores Ctrl-C, and so does all that it starts; tests send that signal and look what happens.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
