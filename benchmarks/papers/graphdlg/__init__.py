"""GraphDLG's rows."""
