# Two web servers in containers, each with a port of its node. It needs a node with Docker or Podman: docs/operations/docker.md.
# Run it with `drover job run examples/web.nomad.hcl`; `drover alloc status ID` shows the address of each.
job "web" {
  datacenters = ["dc1"]
  type        = "service"

  # The container engine's own attribute; without it the job waits for a node that has the driver.
  constraint {
    attribute = "${attr.driver.docker.os_type}"
    value     = "linux"
  }

  group "servers" {
    count = 2

    update {
      min_healthy_time = "5s"
    }

    # A dynamic port of the node, which reaches port 80 in the container.
    network {
      port "http" {
        to = 80
      }
    }

    task "nginx" {
      driver       = "docker"
      kill_timeout = "10s"

      config {
        image = "nginx:1.29-alpine"
        ports = ["http"]

        # nginx writes to memory only.
        readonly_rootfs = true

        mount {
          type   = "tmpfs"
          target = "/var/cache/nginx"
        }

        mount {
          type   = "tmpfs"
          target = "/var/run"
        }
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
