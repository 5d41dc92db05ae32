//! The address of a server, checked before anything is asked of it.

use ureq::http::Uri;

/// What a right one looks like.
const EXAMPLE: &str = "http://127.0.0.1:8090";

/// Reads the address of a server, without the slash at its end.
///
/// Errors: it is no `http://HOST:PORT`; names the flag, the variable and a right example.
pub fn server(text: &str) -> Result<String, String> {
    let Some(lack) = lack_of(text) else { return Ok(text.trim_end_matches('/').to_owned()) };
    let host = text.split_once("://").map_or(text, |(_, host)| host);
    let meant = format!("http://{host}");
    let example = if lack_of(&meant).is_none() { &meant } else { EXAMPLE };
    Err(format!("{lack}; give --server or the variable REHOME_SERVER as http://HOST:PORT, for example {example}"))
}

/// Returns what keeps the text from being an address, if anything does.
fn lack_of(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    let Ok(uri) = text.parse::<Uri>() else { return Some("it is no URL") };
    match (uri.scheme_str(), uri.authority()) {
        (Some("http"), Some(authority)) => {
            let named = authority.as_str().rsplit('@').next().unwrap_or_default();
            let port_named = named.strip_prefix(uri.host().unwrap_or_default()).is_some_and(|rest| !rest.is_empty());
            if uri.host().is_none_or(str::is_empty) {
                return Some("it names no host");
            }
            let port_lacks = port_named && uri.port_u16().is_none_or(|port| port == 0);
            let lack = port_lacks.then_some("its port is none from 1 to 65535");
            lack.or_else(|| {
                (uri.query().is_some() || text.contains('#')).then_some("it has more than host, port and path")
            })
        }
        (Some("https"), _) => Some("the server speaks no https"),
        _ => Some("it does not start with http://"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_with_and_without_a_slash_a_port_and_a_path() {
        for (text, read) in [
            ("http://127.0.0.1:8090", "http://127.0.0.1:8090"),
            ("http://127.0.0.1:8090/", "http://127.0.0.1:8090"),
            ("http://localhost", "http://localhost"),
            ("HTTP://localhost:1", "HTTP://localhost:1"),
            ("http://[::1]:8090", "http://[::1]:8090"),
            ("http://proxy:80/rehome/", "http://proxy:80/rehome"),
        ] {
            assert_eq!(server(text).as_deref(), Ok(read));
        }
        assert!(server(EXAMPLE).is_ok());
    }

    #[test]
    fn whatever_else_is_refused_with_what_was_meant() {
        for (text, example) in [
            ("127.0.0.1:7000", "http://127.0.0.1:7000"),
            ("localhost", "http://localhost"),
            ("https://host:1", "http://host:1"),
            ("ftp://host", "http://host"),
            ("[::1]:7000", "http://[::1]:7000"),
            ("host:7000/", "http://host:7000/"),
            ("", EXAMPLE),
            ("http://", EXAMPLE),
            ("http://:7000", EXAMPLE),
            ("http:///v1", EXAMPLE),
            ("http://host:99999", EXAMPLE),
            ("http://host:0", EXAMPLE),
            ("http://host:port", EXAMPLE),
            ("http://host:", EXAMPLE),
            ("http://host?x=1", EXAMPLE),
            ("http://host#part", EXAMPLE),
            ("http://two words", EXAMPLE),
            ("rubbish / more", EXAMPLE),
            ("http://hóst", EXAMPLE),
        ] {
            let refused = server(text).expect_err(text);
            let end = format!("for example {example}");
            assert!(refused.ends_with(&end) && refused.contains("REHOME_SERVER"), "{text:?}: {refused}");
        }
    }
}
