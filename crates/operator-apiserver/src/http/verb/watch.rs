//! GET with `watch`: a stream of events.

use std::sync::Arc;

use http::StatusCode;

use super::options;
use crate::codec::Form;
use crate::http::call::{Answer, Call, Content};
use crate::http::handler::Handler;
use crate::http::table::IncludeObject;
use crate::http::upgrade::Upgrade;
use crate::http::watch::{self, Subscription};
use crate::http::websocket;
use crate::resource::Definition;
use crate::status::Status;

pub(super) fn serve(
    handler: &Handler,
    call: &Call,
    definition: &Arc<Definition>,
    form: Form,
) -> Result<Answer, Status> {
    let mut list = options::list_options(call, definition)?;
    list.token = String::new();
    let mut watch = options::watch_options(call, handler.gates.is_enabled("WatchList"))?;
    let least = handler.min_request_timeout.as_secs();
    if watch.timeout_seconds.is_none() && least > 0 {
        // Randomized, so that not all clients reconnect at the same time.
        watch.timeout_seconds = Some(least + handler.registry.random.next() % least);
    }
    if !call.info.name.is_empty() {
        list.fields.terms.push(apimachinery::selector::FieldTerm {
            field: "metadata.name".to_owned(),
            equal: true,
            value: call.info.name.clone(),
        });
    }
    let stream_type = form.stream_type()?;
    let mut answer = Answer::new(StatusCode::OK, stream_type, Default::default());
    if call.can_upgrade && websocket::is_requested(call) {
        answer = websocket::handshake(call);
        if !answer.code.is_informational() {
            return Ok(answer);
        }
        answer.upgrade = Some(Upgrade::Events {
            is_text: !form.protobuf,
        });
    }
    let subscription = Subscription::open(
        handler.registry.clone(),
        definition.clone(),
        &call.info.namespace,
        list,
        &watch,
        form,
        IncludeObject::parse(call)?,
    );
    answer.content = Content::Stream(watch::stream(subscription, &watch, call.drain.clone()));
    Ok(answer)
}
