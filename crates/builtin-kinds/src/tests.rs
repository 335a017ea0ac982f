//! The recordings of a stock kube-apiserver, replayed purely: no server, no store, no admission plug-ins.

mod recorded;

mod decoding;
mod defaulting;
mod pods;
mod validation;
