//! How Kafka is reached.

use crate::exit::Failure;
use rehome_kafka::KafkaConfig;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How Kafka is reached, and what is made there.
#[derive(Clone, clap::Args)]
pub struct KafkaArgs {
    /// Brokers as HOST:PORT, several with commas
    #[arg(long, env = "REHOME_KAFKA_BROKERS", value_name = "HOST:PORT,...")]
    pub kafka_brokers: String,
    /// Put before the name of every topic, so that several installations can share a cluster
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub topic_prefix: String,
    /// A property of librdkafka, as NAME=VALUE, NAME=file:PATH or NAME=env:VARIABLE: TLS, SASL and the like; repeatable
    #[arg(long, value_name = "NAME=VALUE", value_parser = property)]
    pub kafka: Vec<(String, Source)>,
    /// File of such properties, one NAME=VALUE a line; empty lines and lines that begin with # say nothing
    #[arg(long, value_name = "FILE")]
    pub kafka_file: Option<PathBuf>,
    /// Replicas of each partition of topics that are made
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub replication_factor: u32,
    /// Replicas that must have a record before it is acknowledged [default: one less than the factor, at least 1]
    #[arg(long, value_name = "N")]
    pub min_insync_replicas: Option<u32>,
}

/// Whether demo or bench run over Kafka, and over which.
#[derive(Clone, Debug, clap::Args)]
pub struct KafkaChoice {
    /// Over Kafka instead of an embedded log: the brokers that are given, else one that Docker starts for this run
    #[arg(long)]
    pub kafka: bool,
    /// Brokers as HOST:PORT, several with commas. Topics get a prefix of their own, and are removed in the end
    #[arg(long, value_name = "HOST:PORT,...", requires = "kafka")]
    pub kafka_brokers: Option<String>,
    /// File of librdkafka's properties, as for `rehome serve`
    #[arg(long, value_name = "FILE", requires = "kafka_brokers")]
    pub kafka_file: Option<PathBuf>,
    /// Replicas of each partition [default: 1]
    #[arg(long, value_name = "N", requires = "kafka_brokers")]
    pub replication_factor: Option<u32>,
}

impl KafkaChoice {
    /// Returns how those brokers are reached, with that prefix for topics.
    pub fn args(&self, brokers: &str, topic_prefix: String) -> KafkaArgs {
        KafkaArgs {
            kafka_brokers: brokers.to_owned(),
            topic_prefix,
            kafka: Vec::new(),
            kafka_file: self.kafka_file.clone(),
            replication_factor: self.replication_factor.unwrap_or(1),
            min_insync_replicas: None,
        }
    }
}

/// Where the value of a property comes from: what is a secret need not stand on a command line.
#[derive(Clone)]
pub enum Source {
    Text(String),
    File(PathBuf),
    Environment(String),
}

/// Shows no value: it may be a secret.
impl std::fmt::Debug for KafkaArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.kafka.iter().map(|(name, _)| name.as_str()).collect();
        let shown = (&self.kafka_brokers, &self.topic_prefix, names, &self.kafka_file);
        shown.fmt(f)
    }
}

/// Reads one property. An error never shows the value.
fn property(text: &str) -> Result<(String, Source), String> {
    let (name, value) = text.split_once('=').ok_or("a property is NAME=VALUE")?;
    if name.trim().is_empty() {
        return Err("a property is NAME=VALUE, and this one has no name".into());
    }
    let source = match value.split_once(':') {
        Some(("file", path)) => Source::File(path.into()),
        Some(("env", variable)) => Source::Environment(variable.to_owned()),
        _ => Source::Text(value.to_owned()),
    };
    Ok((name.trim().to_owned(), source))
}

impl Source {
    fn read(&self, name: &str) -> Result<String, Failure> {
        let lacks = |why: String| Failure::usage(format!("the Kafka property {name} cannot be read: {why}"));
        match self {
            Source::Text(text) => Ok(text.clone()),
            Source::File(path) => match std::fs::read_to_string(path) {
                Ok(text) => Ok(text.trim_end_matches(['\n', '\r']).to_owned()),
                Err(error) => Err(lacks(format!("{}: {error}", path.display()))),
            },
            Source::Environment(variable) => {
                std::env::var(variable).map_err(|_| lacks(format!("${variable} is not set")))
            }
        }
    }
}

impl KafkaArgs {
    /// Returns the words by which another process reaches the same. Properties are passed on by their file alone.
    pub fn words(&self) -> Vec<String> {
        let mut words = vec!["--kafka-brokers".to_owned(), self.kafka_brokers.clone()];
        words.extend(["--topic-prefix".to_owned(), self.topic_prefix.clone()]);
        words.extend(["--replication-factor".to_owned(), self.replication_factor.to_string()]);
        if let Some(file) = &self.kafka_file {
            words.extend(["--kafka-file".to_owned(), file.display().to_string()]);
        }
        words
    }

    /// Returns the configuration.
    ///
    /// Errors: a property cannot be read, or must not be set.
    pub fn config(&self) -> Result<KafkaConfig, Failure> {
        let mut properties = BTreeMap::new();
        if let Some(path) = &self.kafka_file {
            let shown = path.display();
            let text = std::fs::read_to_string(path).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
            for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !is_empty(line)) {
                let read =
                    property(line.trim()).map_err(|why| Failure::usage(format!("{shown}, line {number}: {why}")))?;
                properties.insert(read.0.clone(), read.1.read(&read.0)?);
            }
        }
        for (name, source) in &self.kafka {
            properties.insert(name.clone(), source.read(name)?);
        }
        let factor = self.replication_factor;
        let config = KafkaConfig {
            topic_prefix: self.topic_prefix.clone(),
            properties,
            replication_factor: factor,
            min_insync_replicas: self.min_insync_replicas.unwrap_or(factor.saturating_sub(1).max(1)),
            ..KafkaConfig::new(self.kafka_brokers.clone())
        };
        config.check().map_err(|error| Failure::usage(error.to_string()).next("rehome serve --help"))?;
        Ok(config)
    }
}

fn is_empty(line: &str) -> bool {
    let line = line.trim();
    line.is_empty() || line.starts_with('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(kafka: &[&str], kafka_file: Option<PathBuf>) -> KafkaArgs {
        KafkaArgs {
            kafka_brokers: "127.0.0.1:9092".into(),
            topic_prefix: "a.".into(),
            kafka: kafka.iter().map(|text| property(text).expect("it is one")).collect(),
            kafka_file,
            replication_factor: 1,
            min_insync_replicas: None,
        }
    }

    #[test]
    fn properties_come_from_words_files_and_the_environment_and_words_win() {
        let dir = tempfile::tempdir().expect("a folder");
        let (secret, file) = (dir.path().join("secret"), dir.path().join("kafka.properties"));
        std::fs::write(&secret, "hunter2\n").expect("it can be written");
        let text = format!(
            "# how we reach it\n\nsasl.username = anne\nsasl.password=file:{}\nclient.id=x\n",
            secret.display()
        );
        std::fs::write(&file, text.replace(" = ", "=")).expect("it can be written");
        let config = args(&["client.id=y", "ssl.ca.location=env:PATH"], Some(file)).config().expect("it can be read");
        let path = std::env::var("PATH").expect("it is set");
        let expected =
            [("client.id", "y"), ("sasl.password", "hunter2"), ("sasl.username", "anne"), ("ssl.ca.location", &path)];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(config.properties, BTreeMap::from(expected));
        assert_eq!((config.replication_factor, config.min_insync_replicas), (1, 1));
        assert_eq!(config.topic_prefix, "a.");
    }

    #[test]
    fn what_is_wrong_is_told_without_values() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("kafka.properties");
        std::fs::write(&file, "client.id=x\nhunter2\n").expect("it can be written");
        for (refused, told) in [
            (args(&["acks=hunter2"], None).config(), "acks"),
            (args(&["sasl.password=file:/nowhere/hunter"], None).config(), "sasl.password"),
            (args(&["sasl.password=env:REHOME_NOT_SET"], None).config(), "$REHOME_NOT_SET"),
            (args(&[], Some(file)).config(), "line 2"),
            (args(&[], Some("/nowhere".into())).config(), "/nowhere"),
        ] {
            let refused = refused.expect_err(told).message;
            assert!(refused.contains(told) && !refused.contains("hunter2"), "{refused}");
        }
        assert!(property("hunter2").is_err_and(|why| !why.contains("hunter2")));
        assert!(!format!("{:?}", args(&["sasl.password=hunter2"], None)).contains("hunter2"));
    }
}
