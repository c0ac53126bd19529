//! Attacks by bytes that are no proper HTTP.

use tests::harness::jobs;
use wire::envelope::COMMAND_BYTES_MAX;

use crate::attack::{Attack, Outcome, Size, at_once, ensure, expect, expect_answered, expect_refused};
use crate::scene::Scene;
use crate::socket::{CLOSED, SILENT, Socket, request};

pub(crate) const ATTACKS: &[Attack] = &[
    Attack {
        name: "unknown-methods",
        does: "methods that no route has: `TRACE`, `PROPFIND`, `CONNECT`, `get`, one of 4,000 letters",
        expected: "an error",
        size: Size::Quick,
        run: |scene| Box::pin(unknown_methods(scene)),
    },
    Attack {
        name: "http-0.9",
        does: "request lines without a version, with others, or with none of their parts",
        expected: "an error, or the connection is closed",
        size: Size::Quick,
        run: |scene| Box::pin(request_lines(scene)),
    },
    Attack {
        name: "other-protocols",
        does: "the hello of TLS, the preface of HTTP/2, SSH, PostgreSQL and NATS on the plain port",
        expected: "an error, or the connection is closed",
        size: Size::Full,
        run: |scene| Box::pin(other_protocols(scene)),
    },
    Attack {
        name: "nul-bytes",
        does: "NUL in the path, escaped in the path, in a header, and in a job's id",
        expected: "an error",
        size: Size::Quick,
        run: |scene| Box::pin(nul_bytes(scene)),
    },
    Attack {
        name: "huge-header",
        does: "headers of 1 MiB in one line, eight at once",
        expected: "an error, or the connection is closed",
        size: Size::Full,
        run: |scene| Box::pin(huge_header(scene)),
    },
    Attack {
        name: "header-flood",
        does: "100,000 short headers in one request, eight at once",
        expected: "an error, or the connection is closed",
        size: Size::Full,
        run: |scene| Box::pin(header_flood(scene)),
    },
    Attack {
        name: "odd-headers",
        does: "headers without names, with folded lines, with line breaks of one byte, no and two hosts",
        expected: "any answer",
        size: Size::Full,
        run: |scene| Box::pin(odd_headers(scene)),
    },
    Attack {
        name: "accepted-encodings",
        does: "60,000 bytes of encodings and languages that are accepted",
        expected: "the list, or an error",
        size: Size::Full,
        run: |scene| Box::pin(accepted_encodings(scene)),
    },
    Attack {
        name: "chunked-garbage",
        does: "chunks whose size is no number, negative, larger than 64 bits, or longer than what follows",
        expected: "an error, or the connection is closed",
        size: Size::Quick,
        run: |scene| Box::pin(chunked_garbage(scene)),
    },
    Attack {
        name: "tiny-chunks",
        does: "a job in 200,000 chunks of a byte, each with an extension",
        expected: "the job is registered, or an error",
        size: Size::Full,
        run: |scene| Box::pin(tiny_chunks(scene)),
    },
    Attack {
        name: "two-lengths",
        does: "two different lengths, unknown transfer encodings, and a second request hidden in a body",
        expected: "an error; the hidden request is not carried out",
        size: Size::Quick,
        run: |scene| Box::pin(two_lengths(scene)),
    },
    Attack {
        name: "wrong-lengths",
        does: "lengths that are negative, signed, fractions, of 64 bits and more, too short or too long",
        expected: "an error, or the connection is closed",
        size: Size::Full,
        run: |scene| Box::pin(wrong_lengths(scene)),
    },
    Attack {
        name: "expect-continue",
        does: "`Expect: 100-continue` and no body, 200 times; expectations that nobody knows",
        expected: "at most an invitation to continue; nothing is registered",
        size: Size::Full,
        run: |scene| Box::pin(expect_continue(scene)),
    },
    Attack {
        name: "websocket",
        does: "an upgrade to a WebSocket on routes that have none, for a command in an allocation that does not exist, and by \
               a page of another site",
        expected: "no upgrade; a WebSocket that is closed at once; 403",
        size: Size::Full,
        run: |scene| Box::pin(websocket(scene)),
    },
    Attack {
        name: "header-injection",
        does: "escaped line breaks in a path that is redirected",
        expected: "no header of the attacker's in the answer",
        size: Size::Full,
        run: |scene| Box::pin(header_injection(scene)),
    },
];

/// Sends each text on a connection of its own, and expects a refusal.
async fn expect_each_refused(scene: &Scene, cases: &[(&str, &[u8])]) -> Outcome {
    for (what, bytes) in cases {
        expect_refused(what, &scene.socket().await.exchange(bytes).await)?;
    }
    Ok(())
}

async fn unknown_methods(scene: &Scene) -> Outcome {
    let long = "X".repeat(4_000);
    for method in ["FOO", "get", "TRACE", "PATCH", "PROPFIND", "M-SEARCH", "OPTIONS", long.as_str()] {
        expect_refused(method, &scene.ask(method, "/v1/jobs", b"").await)?;
    }
    let connect = b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    expect_each_refused(scene, &[("CONNECT", connect)]).await
}

async fn request_lines(scene: &Scene) -> Outcome {
    let cases: &[(&str, &[u8])] = &[
        ("no version", b"GET /v1/jobs\r\n\r\n"),
        ("another version", b"GET /v1/jobs HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n"),
        ("no number", b"GET /v1/jobs HTTP/one\r\nHost: 127.0.0.1\r\n\r\n"),
        ("no path", b"GET  HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        ("only spaces", b"   \r\n\r\n"),
        ("a path without a slash", b"GET v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        ("a space in the path", b"GET /v1/job/a b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        ("bytes beyond ASCII in the method", b"G\xc3\x89T /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
    ];
    expect_each_refused(scene, cases).await
}

async fn other_protocols(scene: &Scene) -> Outcome {
    let cases: &[(&str, &[u8])] = &[
        ("TLS", b"\x16\x03\x01\x00\x31\x01\x00\x00\x2d\x03\x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\r\n\r\n"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        ("SSH", b"SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        ("PostgreSQL", b"\x00\x00\x00\x08\x04\xd2\x16\x2f"),
        ("NATS", b"CONNECT {\"verbose\":false}\r\nPING\r\n\r\n"),
        ("random bytes", b"\xff\xfe\x80\x81\xc0\xc1\xf5\xf6\r\n\r\n"),
    ];
    expect_each_refused(scene, cases).await
}

async fn nul_bytes(scene: &Scene) -> Outcome {
    let cases: &[(&str, &[u8])] = &[
        ("NUL in the path", b"GET /v1/job/a\0b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"),
        ("NUL in a header", b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: a\0b\r\n\r\n"),
        ("NUL in a header's name", b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX\0A: ab\r\n\r\n"),
    ];
    expect_each_refused(scene, cases).await?;
    expect_refused("NUL in an id", &scene.register(&jobs::mock_service("a\0b", 0)).await)?;
    expect_answered("an escaped NUL in the path", &scene.get("/v1/job/a%00b").await)?;
    expect_answered("NUL in a parameter", &scene.get("/v1/jobs?prefix=a%00b").await)?;
    Ok(())
}

async fn huge_header(scene: &Scene) -> Outcome {
    let host = scene.host();
    let header = format!("X-Long: {}\r\n", "a".repeat(1 << 20));
    let request = request(&host, "GET", "/v1/jobs", &header, b"");
    expect_refused_at_once(&host, "a header of 1 MiB", &request).await
}

async fn header_flood(scene: &Scene) -> Outcome {
    let host = scene.host();
    let headers: String = (0..100_000).map(|number| format!("X-{number}: a\r\n")).collect();
    let request = request(&host, "GET", "/v1/jobs", &headers, b"");
    expect_refused_at_once(&host, "100,000 headers", &request).await
}

async fn expect_refused_at_once(host: &str, what: &str, request: &[u8]) -> Outcome {
    let answers = at_once(8, |_| {
        let (host, request) = (host.to_owned(), request.to_vec());
        async move { Socket::open(&host).await.exchange(&request).await }
    })
    .await;
    for answer in answers {
        expect_refused(what, &answer)?;
    }
    Ok(())
}

async fn odd_headers(scene: &Scene) -> Outcome {
    let cases: &[(&str, &[u8])] = &[
        ("no name", b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n: a\r\n\r\n"),
        ("no colon", b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nabc\r\n\r\n"),
        ("a folded line", b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: a\r\n b\r\n\r\n"),
        ("line breaks of one byte", b"GET /v1/jobs HTTP/1.1\nHost: 127.0.0.1\n\n"),
        ("a space before the colon", b"GET /v1/jobs HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n"),
        ("no host", b"GET /v1/jobs HTTP/1.1\r\n\r\n"),
        ("two hosts", b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n"),
        ("bytes beyond ASCII", b"GET /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: \xff\xfe\r\n\r\n"),
        ("an old version that stays", b"GET /v1/jobs HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"),
    ];
    for (what, bytes) in cases {
        let answer = scene.socket().await.exchange(bytes).await;
        ensure(answer.status != SILENT, || format!("{what}: {}", answer.summary()))?;
    }
    Ok(())
}

async fn accepted_encodings(scene: &Scene) -> Outcome {
    let encodings = (0..6_000).map(|number| format!("x{number};q=0")).collect::<Vec<_>>().join(",");
    for header in ["Accept-Encoding", "Accept-Language", "Accept"] {
        let header = format!("{header}: {encodings}\r\n");
        let answer = scene.ask_with("GET", "/v1/jobs?per_page=1", &header, b"").await;
        expect("many encodings", &answer, &[200, 400, 413, 431, CLOSED])?;
    }
    Ok(())
}

async fn chunked_garbage(scene: &Scene) -> Outcome {
    let bodies: [(&str, &[u8]); 7] = [
        ("no number", b"zz\r\n{}\r\n0\r\n\r\n"),
        ("a negative number", b"-1\r\n{}\r\n0\r\n\r\n"),
        ("no size", b"\r\n\r\n"),
        ("more than 64 bits", b"FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n"),
        ("64 bits", b"FFFFFFFFFFFFFFFF\r\n{}"),
        ("no line break after a chunk", b"2\r\n{}0\r\n\r\n"),
        ("an empty body", b"0\r\n\r\n"),
    ];
    for (what, body) in bodies {
        let head = b"PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let mut socket = scene.socket().await;
        socket.send(&[head, body].concat()).await;
        // Without an end, the server would wait for the rest of a chunk.
        socket.end_sending().await;
        expect_refused(what, &socket.answer().await)?;
    }
    Ok(())
}

async fn tiny_chunks(scene: &Scene) -> Outcome {
    let job = jobs::mock_service("tiny-chunks", 0).to_string();
    let padded = format!("{job}{}", " ".repeat(200_000 - job.len()));
    let mut request =
        b"PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for byte in padded.bytes() {
        request.extend_from_slice(b"1;extension=abc\r\n");
        request.extend_from_slice(&[byte, b'\r', b'\n']);
    }
    request.extend_from_slice(b"0\r\n\r\n");
    let answer = scene.socket().await.exchange(&request).await;
    expect("chunks of a byte", &answer, &[200, 400, 413, CLOSED])?;
    Ok(())
}

async fn two_lengths(scene: &Scene) -> Outcome {
    const VICTIM: &str = "smuggled";
    expect("registering a job", &scene.register(&jobs::mock_service(VICTIM, 0)).await, &[200])?;
    let hidden = format!("DELETE /v1/job/{VICTIM}?purge=true HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let length = hidden.len();
    for (what, headers) in [
        ("two lengths, the shorter first", format!("Content-Length: 0\r\nContent-Length: {length}\r\n")),
        ("two lengths, the longer first", format!("Content-Length: {length}\r\nContent-Length: 0\r\n")),
        ("two lengths in one header", format!("Content-Length: 0, {length}\r\n")),
        ("an unknown transfer encoding", "Transfer-Encoding: xchunked\r\n".to_owned()),
        (
            "two transfer encodings",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
        ),
    ] {
        let request = format!("PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}\r\n{hidden}");
        expect_refused(what, &scene.socket().await.exchange(request.as_bytes()).await)?;
        ensure(scene.has_job(VICTIM).await, || format!("{what}: the hidden request was carried out"))?;
    }
    // As a body of a known length it is a body.
    let answer = scene.ask("PUT", "/v1/jobs", hidden.as_bytes()).await;
    expect("a request as a body", &answer, &[400])?;
    ensure(scene.has_job(VICTIM).await, || "a request in a body was carried out".to_owned())?;
    Ok(())
}

async fn wrong_lengths(scene: &Scene) -> Outcome {
    let above = (COMMAND_BYTES_MAX + 1).to_string();
    for length in
        ["-1", "+2", "0x2", "1.5", "two", "", "18446744073709551615", "18446744073709551616", above.as_str()]
    {
        let request =
            format!("PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{{}}");
        let mut socket = scene.socket().await;
        socket.send(request.as_bytes()).await;
        socket.end_sending().await;
        expect_refused(&format!("the length {length:?}"), &socket.answer().await)?;
    }
    // A body that is longer than announced: the rest is no request.
    let job = jobs::mock_service("too-long", 0).to_string();
    let text = format!("PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n{job}");
    expect_refused("a body that is too long", &scene.socket().await.exchange(text.as_bytes()).await)?;
    // One that is shorter: the attacker leaves.
    scene
        .socket()
        .await
        .send(b"PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{}")
        .await;
    Ok(())
}

async fn expect_continue(scene: &Scene) -> Outcome {
    for _ in 0..200 {
        let head = b"PUT /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n";
        let answer = scene.socket().await.exchange(head).await;
        expect("an invitation to continue", &answer, &[100, 400, 413, 417, CLOSED])?;
    }
    let headers = "Expect: the-unexpected\r\n";
    let answer = scene.ask_with("PUT", "/v1/jobs", headers, b"{}").await;
    expect_refused("an unknown expectation", &answer)?;
    Ok(())
}

async fn websocket(scene: &Scene) -> Outcome {
    let headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    for path in ["/v1/jobs", "/v1/event/stream?index=x"] {
        let answer = scene.ask_with("GET", path, headers, b"").await;
        ensure(answer.status != 101, || format!("{path} was upgraded"))?;
        ensure(answer.status != SILENT, || format!("{path}: {}", answer.summary()))?;
    }
    let command = "/v1/client/allocation/x/exec?command=%5B%22sh%22%5D";
    // The answer is there when the connection is closed.
    expect("a command in no allocation", &scene.ask_with("GET", command, headers, b"").await, &[101])?;
    let foreign = format!("{headers}Origin: https://evil.example\r\n");
    expect("a page of another site", &scene.ask_with("GET", command, &foreign, b"").await, &[403])?;
    Ok(())
}

async fn header_injection(scene: &Scene) -> Outcome {
    for path in ["/v1//jobs%0d%0aX-Attacker:%20yes", "/v1/./a%0aX-Attacker:yes?b=%0d%0aX-Attacker:yes"] {
        let answer = scene.get(path).await;
        ensure(answer.status != SILENT, || format!("{path}: {}", answer.summary()))?;
        let is_injected = answer.head.lines().any(|line| line.to_ascii_lowercase().starts_with("x-attacker"));
        ensure(!is_injected, || format!("{path}: {}", answer.head))?;
    }
    Ok(())
}
