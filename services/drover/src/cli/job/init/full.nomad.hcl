# A job file to begin with. Check it with `drover job validate`, run it with `drover job run`.

# What is likely to differ from one run to the next; give values with -var, -var-file or NOMAD_VAR_count.
variable "count" {
  type        = number
  default     = 1
  description = "How many servers run."

  validation {
    condition     = var.count > 0
    error_message = "At least one server should run."
  }
}

# The name of the job is what everything else refers to it by.
job "example" {
  # "service" runs until it is stopped; "batch" runs until it is done.
  type = "service"

  # Where the job may run, and how much it matters: from 1 to 100.
  datacenters = ["*"]
  priority    = 50

  # Only nodes that fit get allocations of the job.
  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  # The tasks of a group run together on one node.
  group "web" {
    count = var.count

    # What happens on a node when a task ends although it should run.
    restart {
      attempts = 2
      interval = "30m"
      delay    = "15s"
      mode     = "fail"
    }

    # Disk space for what the tasks write, in MB.
    ephemeral_disk {
      size = 300
    }

    # Each port gets a number on the node; tasks find it in NOMAD_PORT_http.
    network {
      port "http" {}
    }

    task "server" {
      # What runs the task. "raw_exec" is a process without walls around it.
      driver = "raw_exec"

      config {
        command = "/usr/bin/env"
        args    = ["python3", "-m", "http.server", "${NOMAD_PORT_http}"]
      }

      env {
        GREETING = "Hello from ${NOMAD_ALLOC_NAME}"
      }

      # How long the task has to end after it was asked to.
      kill_timeout = "10s"

      # Logs are kept in so many files of so many MB.
      logs {
        max_files     = 5
        max_file_size = 10
      }

      # Megahertz and megabytes.
      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
