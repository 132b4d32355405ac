"use strict";
// A page that is loaded again without a network: say so, and try again. Nothing of the study is kept here.
const PAGE = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>No network</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<meta http-equiv="refresh" content="5"></head><body><main><h1>The network is away</h1>
<p>Your answers are safe: they are kept in this browser and sent when the network is back.</p>
<p>This page tries again every few seconds. You can also come back later with your link.</p></main></body></html>`;
self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));
self.addEventListener("fetch", (event) => {
  if (event.request.mode !== "navigate" || event.request.method !== "GET") return;
  event.respondWith(fetch(event.request).catch(() => new Response(PAGE, {
    status: 503, headers: { "content-type": "text/html; charset=utf-8", "content-security-policy": "default-src 'none'" },
  })));
});
