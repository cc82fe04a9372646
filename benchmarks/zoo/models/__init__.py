"""The models of the zoo: files from wheels, architectures, proxies, and their inputs."""
