# Settings of the agent, which runs tasks on this machine. After a change: systemctl restart drover-agent
# Running tasks go on meanwhile.

# Where the agent keeps its state, and the directories of allocations.
data_dir = "/var/lib/drover"

# What the node is called; the host's name unless given.
# name = "node-1"

# Jobs name the datacenters in which they may run.
datacenter = "dc1"

# Where NATS is; with commas between several servers.
nats {
  url = "tls://localhost:4222"
}

client {
  enabled = true

  # Jobs may ask for a pool or a class of nodes.
  # node_pool  = "default"
  # node_class = "large"

  # The network interface whose address tasks are given; that of the default route unless given.
  # network_interface = "eth0"

  # What is kept from tasks, for the rest of the system.
  # reserved {
  #   cpu    = 500
  #   memory = 512
  # }
}

# Runs any program of this machine as root, or as the user that the job names, without isolation. Off unless enabled.
plugin "raw_exec" {
  config {
    enabled = false
  }
}
