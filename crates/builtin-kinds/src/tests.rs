//! Replays the recordings of kube-apiserver on pure functions, without a server, a store and admission plug-ins.

mod recorded;

mod decoding;
mod defaulting;
mod unusual;
mod validation;
