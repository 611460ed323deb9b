"""The protocol of a load: what each layer of the lab asks of one, with the answer that most loads give.

A module for each layer has a class `Load` and a function that finds the load of what is at hand. A load's own class stands in
`iodyno.loads.FOLDER.LAYER.load`, and is imported when it is first asked for, so that nobody pays for layers that are not used.
"""
