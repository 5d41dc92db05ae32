//! What rdkafka's safe interface lacks: the only unsafe code here.
//!
//! - a reader's position, which passes over control records and aborted ones;
//! - the id of a topic, by which a re-created one is told from the old;
//! - whether a record that failed was certainly not written;
//! - headers whose name is no text (rdkafka panics on them);
//! - a fatal error of a producer, for tests.
#![allow(unsafe_code)]

use rdkafka::bindings as native;
use rdkafka::client::Client;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::BorrowedMessage;
use rdkafka::types::RDKafkaRespErr;
use rdkafka::{ClientContext, TopicPartitionList};
use rehome_records::Header;
use std::borrow::Cow;
use std::ffi::{CStr, CString};
use std::ptr;
use std::time::Duration;

/// What the cluster knows of a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Described {
    /// Two topics of one name that did not exist at one time have different ids.
    pub id: (i64, i64),
    /// The leading broker of each partition, by number; -1 where there is none.
    pub leaders: Vec<i32>,
}

/// Returns the offset below which everything was taken out of the partition's queue, control records included; nothing
/// before anything was.
pub fn position<C: ClientContext>(client: &Client<C>, topic: &str, partition: i32) -> Option<u64> {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    // SAFETY: both pointers are valid for the call: the client and the list are borrowed. The call only writes into the
    // list's one entry, under librdkafka's own lock.
    unsafe { native::rd_kafka_position(client.native_ptr(), list.ptr()) };
    let offset = list.find_partition(topic, partition)?.offset().to_raw()?;
    u64::try_from(offset).ok()
}

/// Tells whether the record was certainly not written to the log.
pub fn was_not_written(message: &BorrowedMessage<'_>) -> bool {
    // SAFETY: the message is alive as long as it is borrowed; the call reads it only.
    let status = unsafe { native::rd_kafka_message_status(message.ptr()) };
    status == native::rd_kafka_msg_status_t::RD_KAFKA_MSG_STATUS_NOT_PERSISTED
}

/// Returns the message's headers. A name that is no UTF-8 is made so, a null value becomes an empty one.
pub fn headers(message: &BorrowedMessage<'_>, known: impl Fn(&str) -> Cow<'static, str>) -> Vec<Header> {
    let mut found = Vec::new();
    let mut list = ptr::null_mut();
    // SAFETY: the message is alive as long as it is borrowed, and owns the list. Names and values that the calls point
    // to belong to the list; they are copied before the message can be dropped.
    unsafe {
        if native::rd_kafka_message_headers(message.ptr(), &mut list) != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return found;
        }
        let (mut name, mut value, mut bytes) = (ptr::null(), ptr::null(), 0);
        while native::rd_kafka_header_get_all(list, found.len(), &mut name, &mut value, &mut bytes)
            == RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR
        {
            let value = if value.is_null() { &[] } else { std::slice::from_raw_parts(value.cast::<u8>(), bytes) };
            let name = known(&CStr::from_ptr(name).to_string_lossy());
            found.push(Header { name, value: value.to_vec() });
        }
    }
    found
}

/// Asks the cluster for topics; those that do not exist are none. Blocks, at most that long.
pub fn describe<C: ClientContext>(
    client: &Client<C>,
    names: &[&str],
    timeout: Duration,
) -> Result<Vec<Option<Described>>, RDKafkaErrorCode> {
    // librdkafka takes every name once.
    debug_assert!(names.iter().enumerate().all(|(index, name)| !names[..index].contains(name)));
    let millis = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
    let Ok(texts) = names.iter().map(|name| CString::new(*name)).collect::<Result<Vec<_>, _>>() else {
        return Err(RDKafkaErrorCode::InvalidTopic);
    };
    let mut pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
    let op = native::rd_kafka_admin_op_t::RD_KAFKA_ADMIN_OP_DESCRIBETOPICS;
    let mut message = [0; 512];
    // SAFETY: the names live until the call returns, and librdkafka copies them. Queue, options, collection and event
    // are made here and destroyed here, once each, after their last use. The result lives as long as its event.
    unsafe {
        let queue = native::rd_kafka_queue_new(client.native_ptr());
        let options = native::rd_kafka_AdminOptions_new(client.native_ptr(), op);
        native::rd_kafka_AdminOptions_set_request_timeout(options, millis, message.as_mut_ptr(), message.len());
        let topics = native::rd_kafka_TopicCollection_of_topic_names(pointers.as_mut_ptr(), pointers.len());
        native::rd_kafka_DescribeTopics(client.native_ptr(), topics, options, queue);
        native::rd_kafka_TopicCollection_destroy(topics);
        native::rd_kafka_AdminOptions_destroy(options);
        // A second more: librdkafka answers by itself when the time is over.
        let event = native::rd_kafka_queue_poll(queue, millis.saturating_add(1000));
        let described = if event.is_null() { Err(RDKafkaErrorCode::OperationTimedOut) } else { read(event, names) };
        if !event.is_null() {
            native::rd_kafka_event_destroy(event);
        }
        native::rd_kafka_queue_destroy(queue);
        described
    }
}

/// Requires: a live event that answers `DescribeTopics`.
unsafe fn read(
    event: *mut native::rd_kafka_event_t,
    names: &[&str],
) -> Result<Vec<Option<Described>>, RDKafkaErrorCode> {
    let no_error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR;
    // SAFETY: everything that is read here belongs to the event, which the caller keeps alive; counts come with their
    // arrays, whose entries are never null.
    unsafe {
        let failed = native::rd_kafka_event_error(event);
        if failed != no_error {
            return Err(failed.into());
        }
        let result = native::rd_kafka_event_DescribeTopics_result(event);
        let mut count = 0;
        let topics = native::rd_kafka_DescribeTopics_result_topics(result, &mut count);
        let mut described = vec![None; names.len()];
        for index in 0..count {
            let topic = *topics.add(index);
            let name = CStr::from_ptr(native::rd_kafka_TopicDescription_name(topic)).to_string_lossy();
            let Some(place) = names.iter().position(|asked| *asked == name) else { continue };
            let error = native::rd_kafka_TopicDescription_error(topic);
            let code = if error.is_null() { no_error } else { native::rd_kafka_error_code(error) };
            if code != no_error {
                let code = RDKafkaErrorCode::from(code);
                if crate::errors::is_missing(code) {
                    continue;
                }
                return Err(code);
            }
            let id = native::rd_kafka_TopicDescription_topic_id(topic);
            let id =
                (native::rd_kafka_Uuid_most_significant_bits(id), native::rd_kafka_Uuid_least_significant_bits(id));
            let mut count = 0;
            let partitions = native::rd_kafka_TopicDescription_partitions(topic, &mut count);
            let leader = |index| {
                let node = native::rd_kafka_TopicPartitionInfo_leader(*partitions.add(index));
                if node.is_null() { -1 } else { native::rd_kafka_Node_id(node) }
            };
            described[place] = Some(Described { id, leaders: (0..count).map(leader).collect() });
        }
        Ok(described)
    }
}

/// Makes the producer fail for good, as a broker that lost its place would.
pub fn make_fatal<C: ClientContext>(client: &Client<C>) {
    let code = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    // SAFETY: the client is borrowed, the text is static and ends with a zero.
    unsafe { native::rd_kafka_test_fatal_error(client.native_ptr(), code, c"made by a test".as_ptr()) };
}
