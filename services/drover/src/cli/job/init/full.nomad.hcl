# An example job file. Check it with `drover job validate`, run it with `drover job run`.

# Variables hold values that differ between runs. Set them with -var, -var-file or NOMAD_VAR_count.
variable "count" {
  type        = number
  default     = 1
  description = "Number of servers."

  validation {
    condition     = var.count > 0
    error_message = "At least one server must run."
  }
}

# The name identifies the job in all commands.
job "example" {
  # "service" runs until it is stopped; "batch" runs until it is done.
  type = "service"

  # The datacenters that the job may run in, and its priority from 1 to 100.
  datacenters = ["*"]
  priority    = 50

  # Only nodes that satisfy all constraints get allocations of the job.
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  # The tasks of a group run together on one node.
  group "web" {
    count = var.count

    # What the node does when a task ends unexpectedly.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    # Disk space for files of the tasks, in MB.
    ephemeral_disk {
      size = 300
    }

    # Each port gets a number on the node, which tasks find in NOMAD_PORT_http.
    network {
      port "http" {}
    }

    task "server" {
      # The driver runs the task. "raw_exec" starts a process without isolation.
      driver = "raw_exec"

      config {
        command = "/usr/bin/env"
        args    = ["python3", "-m", "http.server", "${NOMAD_PORT_http}"]
      }

      env {
        GREETING = "Hello from ${NOMAD_ALLOC_NAME}"
      }

      # How long the task may take to end after the kill signal.
      kill_timeout = "10s"

      # Number of log files, and their maximum size in MB.
      logs {
        max_files     = 5
        max_file_size = 10
      }

      # CPU in MHz, memory in MB.
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
