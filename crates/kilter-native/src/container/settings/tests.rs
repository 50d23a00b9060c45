use super::*;

#[test]
fn ports_have_one_form() {
    let canonical = |declared| canonical_ports(declared).map(|ports| ports.join(" "));
    assert_eq!(canonical("8080:80").as_deref(), Some("8080:80"));
    assert_eq!(canonical("8080:80/tcp").as_deref(), Some("8080:80"));
    assert_eq!(canonical("0.0.0.0:8080:80").as_deref(), Some("8080:80"));
    assert_eq!(canonical("127.0.0.1:53:53/udp").as_deref(), Some("127.0.0.1:53:53/udp"));
    assert_eq!(canonical("[::1]:8080:80").as_deref(), Some("[::1]:8080:80"));
    assert_eq!(canonical("8000-8002:80-82").as_deref(), Some("8000:80 8001:81 8002:82"));
    for bad in ["80", "a:80", "8080:0", "70000:80", "8000-8001:80", "1-9999:1-9999", "host:1:1", "1:1/icmp", "2-1:2-1"]
    {
        assert_eq!(canonical(bad), None, "{bad}");
    }
}

#[test]
fn volumes_have_one_form() {
    let canonical = |declared| canonical_volume(declared);
    assert_eq!(canonical("/srv/:/www/:rw").as_deref(), Some("/srv:/www"));
    assert_eq!(canonical("/tmp:/data:ro,rprivate,rbind").as_deref(), Some("/tmp:/data:ro"));
    assert_eq!(canonical("data:/v:rw,rprivate,nosuid,nodev,rbind").as_deref(), Some("data:/v"));
    for bad in ["/srv", "data", "/a/../b:/c", "srv/x:/y", "/a:b", "/a:/", "-x:/y", "/a:/b:ro:x", "/a:/b: ro"] {
        assert_eq!(canonical(bad), None, "{bad}");
    }
    assert_eq!(bind("/srv:/www:z,ro"), Some(("/srv", false)));
    assert_eq!(bind("/srv:/www"), Some(("/srv", true)));
    assert_eq!(bind("data:/www"), None);
}

#[test]
fn short_and_full_names_are_the_same_image() {
    let named = |found: &str| Attributes::from_iter([("image", Value::from(found))]);
    assert!(is_same_image(&named("docker.io/library/nginx:latest"), "nginx"));
    assert!(is_same_image(&named("docker.io/library/nginx:1.27"), "nginx:1.27"));
    assert!(is_same_image(&named("nginx"), "nginx:latest"));
    assert!(!is_same_image(&named("docker.io/library/nginx:1.27"), "nginx"));
    assert!(!is_same_image(&named("docker.io/library/my-nginx:1"), "nginx:1"));
}

/// Output of `docker inspect` in docker's manual, shortened.
const DOCKER: &str = r#"{"Name": "/web", "Image": "sha256:aa", "State": {"Status": "exited"},
    "Config": {"Image": "nginx", "Cmd": ["nginx"], "Env": ["PATH=/bin", "A=1", "B=2"],
        "Labels": {"x": "y", "of": "image"}},
    "HostConfig": {"NetworkMode": "default", "Binds": ["/srv:/www:ro"],
        "RestartPolicy": {"Name": "always", "MaximumRetryCount": 0},
        "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort": "8080"}],
            "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "53"}]}},
    "NetworkSettings": {"Networks": {"bridge": {}}}}"#;

#[test]
fn settings_of_the_image_are_left_out() {
    let container = serde_json::from_str(DOCKER).unwrap();
    let image =
        serde_json::json!({"Id": "sha256:aa", "Config": {"Cmd": ["nginx"], "Env": ["A=1"], "Labels": {"of": "image"}}});
    let found = state(&"web".into(), &container, Some(&image), None, &[], None);
    let shown: Vec<String> =
        found.attributes.iter().map(|(name, value)| format!("{}={value}", name.as_str())).collect();
    assert_eq!(
        shown,
        [
            "ensure=stopped",
            "name=web",
            "image=nginx",
            "command=[]",
            "environment={B: 2}",
            "ports=[127.0.0.1:53:53/udp, 8080:80]",
            "volumes=[/srv:/www:ro]",
            "restart=always",
            "labels={x: y}",
            "network=bridge",
            "options=[]",
            "image_id=aa",
        ]
    );
}

#[test]
fn secrets_are_no_arguments() {
    let mut should = Attributes::from_iter([("image", Value::from("nginx"))]);
    let secret = Value::hash([("PLAIN", Value::from("1")), ("TOKEN", Value::sensitive("s3cret".into()))]);
    should.set("environment", secret);
    canonicalize(&mut should);
    let made = creation(ContainerProgram::Podman, "web", &State::absent("web"), &should).unwrap();
    assert_eq!(made.words.join(" "), "create --name=web --env=PLAIN=1 --env=TOKEN nginx");
    assert_eq!(made.secrets, [("TOKEN".into(), "s3cret".into())]);
    should.set("environment", Value::sensitive(Value::hash([("A", Value::from("b"))])));
    let made = creation(ContainerProgram::Podman, "web", &State::absent("web"), &should).unwrap();
    assert_eq!(made.words.join(" "), "create --name=web --env=A nginx");
}

#[test]
fn failed_process_is_the_reason_of_a_start() {
    let json = DOCKER.replace("\"exited\"", "\"exited\", \"ExitCode\": 3");
    let container = serde_json::from_str(&json).unwrap();
    assert_eq!(failure_code(&container), Some(3));
    let mut is = state(&"web".into(), &container, None, None, &[], None);
    is.attributes.push("ended", "status 3: bad luck");
    let mut should = Attributes::from_iter([("ensure", "running")]);
    let differs = |text: &str| Insync::Differs(Some(text.into()));
    let expected = "stopped → running; its process has ended with status 3: bad luck";
    assert_eq!(insync("ensure", &is, &should), differs(expected));
    should.set("restart", "no");
    let expected =
        "stopped → running, recreates the container for: restart; its process has ended with status 3: bad luck";
    assert_eq!(insync("ensure", &is, &should), differs(expected));
    should.set("ensure", "stopped");
    assert_eq!(insync("ensure", &is, &should), Insync::Default);
}

#[test]
fn undeclared_settings_stay() {
    let container = serde_json::from_str(DOCKER).unwrap();
    let is = state(&"web".into(), &container, None, None, &[], None);
    let should = Attributes::from_iter([("ports", Value::strings(["9090:80"])), ("volumes", Value::strings([""; 0]))]);
    assert_eq!(differing(&is, &should), ["ports", "volumes"]);
    let made = creation(ContainerProgram::Docker, "web", &is, &should).unwrap();
    assert_eq!(
        made.words.join(" "),
        "create --name=web --env=A=1 --env=B=2 --publish=9090:80 --restart=always --network=bridge --label=of=image \
         --label=x=y nginx nginx"
    );
    assert_eq!(
        insync("ports", &is, &should),
        Insync::Differs(Some("[127.0.0.1:53:53/udp, 8080:80] → [9090:80], recreates the container".into()))
    );
}

#[test]
fn bad_variables_are_refused_without_their_values() {
    let problems = |environment: Value| {
        let mut should = Attributes::from_iter([("environment", environment)]);
        canonicalize(&mut should);
        let found = super::super::schema::problems(&should);
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for name in ["", " ", "a b", "a=b", "a\nb"] {
        assert!(
            problems(Value::hash([(name, Value::from("x"))])).contains("is not the name of a variable"),
            "{name:?}"
        );
    }
    for secret in [Value::array([Value::sensitive("s3cret".into())]), Value::sensitive(Value::strings(["s3cret"]))] {
        let found = problems(secret);
        assert!(found.contains("a list has variables with their values") && !found.contains("s3cret"), "{found}");
    }
    assert_eq!(problems(Value::strings(["A=b"])), "");
}
