//! Server-side apply and managed fields as pure logic.
