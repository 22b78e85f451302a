"""The stores of one memory as protocols, and the engines that implement them."""
