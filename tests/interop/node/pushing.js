// Push consumers: balanced, broadcasting, filtering, in a namespace, reset, failing.
'use strict';

const { distinct, eventually, message, sleep } = require('./clients');

const SETTLE_MS = 500;
const TIMES_MAX = 2;

async function produce(clients, topic, mark, count) {
  const producer = await clients.producer();
  for (let number = 0; number < count; number++) {
    await producer.send(message(topic, 'T', `${mark}-${number}`, 'x'));
  }
}

const into = keys => async found => {
  keys.push(found.keys);
};

/** How many queues of the topic each consumer has taken. */
async function balance(topic, wanted, consumers) {
  const counts = () => consumers
    .map(consumer => [ ...consumer.processQueueTable.values() ].filter(
      entry => entry.messageQueue.topic === topic).length)
    .sort();
  await eventually(() => JSON.stringify(counts()) === JSON.stringify(wanted));
  return JSON.stringify(counts());
}

async function rebalance(clients, lines) {
  const topic = clients.name('rebalance');
  const group = clients.name('rebalance-group');
  const keys = [];
  const first = await clients.consumer(group, topic, '*', into(keys));
  lines.push(`one ${await balance(topic, [ 8 ], [ first ])}`);
  await produce(clients, topic, 'one', 20);
  const second = await clients.consumer(group, topic, '*', into(keys));
  lines.push(`two ${await balance(topic, [ 4, 4 ], [ first, second ])}`);
  await produce(clients, topic, 'two', 20);
  await second.close();
  lines.push(`one left ${await balance(topic, [ 8 ], [ first ])}`);
  await produce(clients, topic, 'left', 20);
  await eventually(() => new Set(keys).size >= 60);
  lines.push(`received ${new Set(keys).size}`);
}

async function broadcast(clients, lines) {
  const topic = clients.name('broadcast');
  const members = [[], []];
  for (const keys of members) {
    const more = { isBroadcast: true };
    const member = await clients.consumer(clients.name('broadcast-group'), topic, '*', into(keys), more);
    lines.push(`balance ${await balance(topic, [ 4 ], [ member ])}`);
  }
  await produce(clients, topic, 'b', 10);
  for (const keys of members) {
    await eventually(() => keys.length >= 10);
    lines.push(`received ${distinct(keys)} of ${keys.length}`);
  }
}

async function filter(clients, lines) {
  const topic = clients.name('filter');
  const producer = await clients.producer();
  for (let number = 0; number < 20; number++) {
    const tag = [ 'TagA', 'TagB', 'TagC', 'TagD' ][number % 4];
    const made = message(topic, tag, `f-${String(number).padStart(2, '0')}`, 'f');
    made.properties.n = String(number);
    made.properties.even = String(number % 2 === 0);
    await producer.send(made);
  }
  const sql = subString => ({ expressionType: 'SQL92', subString });
  for (const [ name, expression, count ] of [
    [ 'one-tag', 'TagA', 5 ],
    [ 'two-tags', 'TagA || TagC', 10 ],
    [ 'sql', sql("n BETWEEN 3 AND 7 OR TAGS = 'TagB'"), 9 ],
    [ 'sql-text', sql("even = TRUE AND n NOT IN ('2', '4')"), 8 ],
  ]) {
    const keys = [];
    await clients.consumer(clients.name(name), topic, expression, into(keys));
    await eventually(() => keys.length >= count);
    await sleep(SETTLE_MS);  // would anything come that should not?
    lines.push(`${name} ${distinct(keys)} of ${keys.length}`);
  }
}

async function namespace(clients, lines) {
  const topic = clients.name('namespace');
  const space = { namespace: 'SPACE' };
  const producer = await clients.newProducer(clients.name('space-producer'), space);
  clients.onClose(() => producer.close());
  for (let number = 0; number < 2; number++) {
    lines.push(`send ${(await producer.send(message(topic, 'T', `n-${number}`, 'n'))).sendStatus}`);
  }
  const inside = [];
  const outside = [];
  await clients.consumer(clients.name('space-group'), topic, '*', into(inside), space);
  await clients.consumer(clients.name('space-stranger'), `SPACE%${topic}`, '*', into(outside));
  await eventually(() => inside.length >= 2 && outside.length >= 2);
  lines.push(`received ${distinct(inside)}`, `by its full name ${distinct(outside)}`);
}

async function reset(clients, lines) {
  const topic = clients.name('reset');
  const group = clients.name('reset-group');
  await produce(clients, topic, 'r', 10);
  const keys = [];
  await clients.consumer(group, topic, '*', into(keys));
  await eventually(() => keys.length >= 10);
  lines.push(`received ${new Set(keys).size}`);
  console.log(`reset ${topic} ${group}`);  // whoever started this program does it
  await clients.input.next();
  await produce(clients, topic, 's', 4);
  await eventually(() => keys.length >= 24);
  lines.push(`received again ${keys.length >= 24}`);
}

async function retry(clients, lines) {
  const topic = clients.name('retry');
  const group = clients.name('retry-group');
  const seen = [];
  await clients.consumer(group, topic, '*', async found => {
    seen.push(`${found.keys} times ${found.reconsumeTimes} topic ${found.topic}`);
    if (found.keys === 'poison') {
      throw new Error('refused');  // what a handler returns counts for the first attempt only
    }
  }, { maxReconsumeTimes: TIMES_MAX });
  const producer = await clients.producer();
  await producer.send(message(topic, 'T', 'poison', 'bad'));
  await eventually(() => seen.length >= TIMES_MAX + 1);
  lines.push(...seen);
  const dead = [];
  await clients.consumer(`${group}-reader`, `%DLQ%${group}`, '*', async found => {
    dead.push(`${found.keys} times ${found.reconsumeTimes} of ${found.retryTopic}`);
  });
  await eventually(() => dead.length >= 1);
  lines.push(`dead letter ${dead}`);
  await produce(clients, topic, 'healthy', 1);
  await eventually(() => seen.length >= TIMES_MAX + 2);
  lines.push(`after it ${seen[TIMES_MAX + 1]}`);
}

module.exports = { broadcast, filter, namespace, rebalance, reset, retry };
