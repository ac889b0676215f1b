"""Tables of papers that compare edges: GLG, FedGIG, GraphDLG."""
