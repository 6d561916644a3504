"""The Kubernetes API.

`client` is the way in. `informer` keeps objects of one kind in a store by list and watch, `list_pages` reads them once.
`leader_election` holds a Lease. `token_reviews` asks who a caller is. `check_responses` checks everything that a server
answers.
"""
