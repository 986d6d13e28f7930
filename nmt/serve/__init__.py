"""Trained models as a service: the requests that clients of today's translation servers already send.

An `Engine` is one model at work for many clients at once; around it lie protocols (one file each), limits, measures.
"""
