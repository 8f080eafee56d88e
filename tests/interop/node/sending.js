// Sending, sizes and unknown topics.
'use strict';

const { createHash } = require('crypto');
const { attempted, distinct, eventually, message } = require('./clients');

const EACH = 8;
const LIMIT = 4 * 1024 * 1024;

function shown(found) {
  const names = Object.keys(found.properties).sort();
  const body = found.body.length > 100
    ? `${found.body.length} bytes ${createHash('sha256').update(found.body).digest('hex')}`
    : found.body.toString();
  return `${found.keys} ${found.tags} ${body} flag ${found.flag} times ${found.reconsumeTimes} ${names}`;
}

/** Every message of a topic, when there are as many as wanted. */
async function readAll(clients, lines, topic, count) {
  const seen = [];
  await clients.consumer(clients.name(`reader-of-${topic}`), topic, '*', async found => {
    seen.push(shown(found));
  });
  await eventually(() => seen.length >= count);
  lines.push(`received ${seen.length}`, ...seen.sort());
}

async function send(clients, lines) {
  const producer = await clients.producer();
  const topic = clients.name('send');
  const queues = {};
  for (let number = 0; number < EACH; number++) {
    const result = await producer.send(message(topic, 'Sync', `sync-${number}`, `s${number}`));
    const queue = result.messageQueue.queueId;
    queues[queue] = (queues[queue] || 0) + 1;
    lines.push(`sync ${result.sendStatus} ids ${result.msgId.length}`);
  }
  lines.push(`sync queues ${JSON.stringify(queues)}`);
  const all = [];
  for (let number = 0; number < EACH; number++) {
    all.push(producer.send(message(topic, 'Async', `async-${number}`, `a${number}`)));
  }
  lines.push(`async ${(await Promise.all(all)).map(result => result.sendStatus)}`);
  const delayed = message(topic, 'Delayed', 'delayed-0', 'd0');
  delayed.delayTimeLevel = 1;
  lines.push(`delayed ${(await producer.send(delayed)).sendStatus}`);
  await readAll(clients, lines, topic, 2 * EACH + 1);
}

async function sizes(clients, lines) {
  const topic = clients.name('sizes');
  const producer = await clients.newProducer(clients.name('large-producer'), {
    compressMsgBodyOverHowmuch: 100 * LIMIT,
    retryTimesWhenSendFailed: 0,
    maxMessageSize: 100 * LIMIT,
  });
  clients.onClose(() => producer.close());
  for (const size of [ 1, LIMIT, LIMIT + 1 ]) {
    const body = Buffer.alloc(size, 'x');
    const outcome = await attempted(async () =>
      (await producer.send(message(topic, 'T', `size-${size}`, body))).sendStatus);
    lines.push(`${size} bytes: ${outcome}`);
  }
  const ordinary = await clients.producer();
  const text = message(topic, 'T', 'size-text', Buffer.alloc(100000, 'y'));
  lines.push(`compressed: ${(await ordinary.send(text)).sendStatus}`);
  await readAll(clients, lines, topic, 3);
}

async function unknown(clients, lines) {
  const producer = await clients.newProducer(clients.name('stranger'), { retryTimesWhenSendFailed: 0 });
  clients.onClose(() => producer.close());
  const topic = clients.name('unknown');
  lines.push(`send: ${await attempted(async () => (await producer.send(message(topic, 'T', 'u', 'u'))).sendStatus)}`);
}

/**
 * Messages of one sharding key go to one queue and arrive in order.
 * Not so those whose key falls on queue 0, which the client takes for "no queue": key-2 does.
 */
async function ordered(clients, lines) {
  const producer = await clients.producer();
  const topic = clients.name('ordered');
  const queues = {};
  for (let number = 0; number < 60; number++) {
    if (number % 6 === 2) {
      continue;
    }
    const made = message(topic, `Order${number % 6}`, `o-${number}`, `${number}`);
    made.shardingKey = `key-${number % 6}`;
    const result = await producer.send(made);
    const key = `${made.shardingKey}`;
    queues[key] = (queues[key] || new Set()).add(result.messageQueue.queueId);
  }
  lines.push(`queues per key ${Object.keys(queues).sort().map(key => `${key} ${queues[key].size}`)}`);
  const seen = {};
  const keys = [];
  for (let member = 0; member < 2; member++) {
    await clients.consumer(clients.name('ordered-group'), topic, '*', async found => {
      (seen[found.tags] = seen[found.tags] || []).push(Number(found.body.toString()));
      keys.push(found.keys);
    });
  }
  await eventually(() => new Set(keys).size >= 50);
  lines.push(`received ${distinct(keys)}`);
  for (const tag of Object.keys(seen).sort()) {
    const first = seen[tag].filter((number, index) => seen[tag].indexOf(number) === index);
    lines.push(`${tag} ${first}`);  // a member that comes later may get some a second time
  }
}

module.exports = { ordered, send, sizes, unknown };
