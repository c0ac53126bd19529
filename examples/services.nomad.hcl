# Three front ends and three back ends. The front ends find the back ends in two ways: by DNS, and by a file that the agent
# writes (a template). Each way follows when a back end comes or goes.
#
# The agent must answer DNS: `make demo EXAMPLE=services` starts a cluster that does, and runs this. For other clusters see
# docs/operations/dns.md. The programs are written in Perl, which every Debian has.

variable "dns" {
  description = "Address and port on which the agent answers DNS"
  default     = "127.0.0.1:8600"
}

job "services" {
  datacenters = ["dc1"]
  type        = "service"

  # One instance after the other, and each must pass its check before the next.
  update {
    max_parallel     = 1
    min_healthy_time = "1s"
    healthy_deadline = "30s"
  }

  group "back" {
    count = 3

    # An instance that ends is withdrawn first, so that nobody is sent to it any more.
    shutdown_delay = "2s"

    network {
      port "http" {}
    }

    service {
      name     = "back"
      provider = "nomad"
      port     = "http"

      check {
        type     = "http"
        path     = "/"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "serve" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/perl"
        args    = ["local/back.pl"]
      }

      template {
        destination = "local/back.pl"
        change_mode = "restart"
        data        = <<-EOF
          use strict; use warnings; use IO::Socket::INET;
          $SIG{PIPE} = 'IGNORE';
          my $server = IO::Socket::INET->new(
            LocalAddr => $ENV{NOMAD_IP_http}, LocalPort => $ENV{NOMAD_PORT_http}, Listen => 64, ReuseAddr => 1,
          ) or die "cannot listen: $!";
          while (my $client = $server->accept) {
            while (my $line = <$client>) { last if $line =~ /^\r?\n/ }
            print $client "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nback end $ENV{NOMAD_ALLOC_INDEX}\n";
            close $client;
          }
        EOF
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }

  group "front" {
    count = 3

    network {
      port "http" {}
    }

    service {
      name     = "front"
      provider = "nomad"
      port     = "http"

      check {
        type     = "tcp"
        interval = "2s"
        timeout  = "1s"
      }
    }

    task "serve" {
      driver = "raw_exec"

      config {
        command = "/usr/bin/perl"
        args    = ["local/front.pl"]
      }

      env {
        DNS = var.dns
      }

      # The second way: the agent writes this file anew whenever the back ends change.
      template {
        destination = "local/back-ends"
        change_mode = "noop"
        data        = <<-EOF
          {{- range nomadService "back" }}
          {{ .Address }}:{{ .Port }}
          {{- end }}
        EOF
      }

      template {
        destination = "local/front.pl"
        change_mode = "restart"
        data        = <<-EOF
          use strict; use warnings; use IO::Socket::INET; use IO::Select;
          $SIG{PIPE} = 'IGNORE'; $| = 1;

          # Asks the agent for the SRV records of a name, and returns addresses with ports in the order of the answer.
          sub by_dns {
            my ($name) = @_;
            my $socket = IO::Socket::INET->new(PeerAddr => $ENV{DNS}, Proto => 'udp') or return;
            my $question = join('', map { pack 'C/a*', $_ } split /\./, $name) . "\0" . pack('nn', 33, 1);
            send $socket, pack('n6', int rand 65536, 0x0100, 1, 0, 0, 0) . $question, 0;
            IO::Select->new($socket)->can_read(2) or return;
            defined recv($socket, my $reply, 4096, 0) or return;
            my $count = unpack 'x6 n', $reply;
            my ($at, @found) = (12 + length $question);
            while ($count-- > 0) {
              # The record's own name: labels, and a zero or a reference to an earlier name.
              while ((my $length = ord substr $reply, $at, 1) > 0) {
                if ($length >= 0xc0) { $at += 1; last }
                $at += $length + 1;
              }
              my ($size, $port, $label) = unpack 'x9 n x4 n C/a', substr $reply, $at;
              # The target is named by its address: 7f000001.addr.drover.
              push @found, join('.', unpack 'C4', pack 'H8', $label) . ":$port" if $label =~ /^[0-9a-f]{8}$/;
              $at += 11 + $size;
            }
            return @found;
          }

          sub by_file {
            open my $file, '<', 'local/back-ends' or return;
            my @found = grep { /:/ } map { s/\s+//gr } <$file>;
            return sort { rand() <=> 0.5 } @found;
          }

          sub ask {
            my ($address) = @_;
            my $back = IO::Socket::INET->new(PeerAddr => $address, Timeout => 1) or return "no answer from $address";
            print $back "GET / HTTP/1.0\r\n\r\n";
            my ($line) = (reverse <$back>);
            $line //= "nothing\n";
            chomp $line;
            return "$line at $address";
          }

          sub report {
            my ($dns) = by_dns('back.service.drover');
            my ($file) = by_file();
            my $by_dns = $dns ? ask($dns) : 'nobody';
            my $by_file = $file ? ask($file) : 'nobody';
            return "front end $ENV{NOMAD_ALLOC_INDEX} found by DNS: $by_dns; in its file: $by_file\n";
          }

          my $server = IO::Socket::INET->new(
            LocalAddr => $ENV{NOMAD_IP_http}, LocalPort => $ENV{NOMAD_PORT_http}, Listen => 64, ReuseAddr => 1,
          ) or die "cannot listen: $!";
          my $waiting = IO::Select->new($server);
          while (1) {
            # Nobody asks for a second: it tells its log.
            if (!$waiting->can_read(1)) { print report(); next }
            my $client = $server->accept or next;
            while (my $line = <$client>) { last if $line =~ /^\r?\n/ }
            print $client "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n", report();
            close $client;
          }
        EOF
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }
  }
}
