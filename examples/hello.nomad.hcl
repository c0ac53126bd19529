# Two greeters that say hello every other second. Run it with `drover job run examples/hello.nomad.hcl`.
job "hello" {
  datacenters = ["dc1"]
  type        = "service"

  group "greeters" {
    count = 2

    # The default is to wait for ten seconds, in case that it does not last.
    update {
      min_healthy_time = "1s"
    }

    network {
      port "http" {}
    }

    task "greet" {
      driver = "raw_exec"

      config {
        command = "/bin/sh"
        args    = ["-c", "while true; do echo \"Hello from $NOMAD_ALLOC_NAME, port $NOMAD_PORT_http\"; sleep 2; done"]
      }

      resources {
        cpu    = 50
        memory = 32
      }
    }
  }
}
