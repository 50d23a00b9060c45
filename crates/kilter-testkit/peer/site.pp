# The part of examples/server that the core types of Puppet 7 can declare. site.yaml beside it declares the same for kilter.
Package { install_options => ['--no-install-recommends'] }
File { owner => 'root', group => 'root', mode => '0644' }

package { ['nginx-light', 'postgresql', 'git', 'openssl', 'netbase', 'nftables', 'cron', 'logrotate', 'rsync', 'curl', 'ca-certificates',
           'openssh-server', 'acl', 'htop', 'jq', 'less', 'lsof', 'strace', 'sudo', 'tmux', 'unzip', 'vim-tiny', 'zstd']:
  ensure => installed,
}
package { ['telnet', 'rsh-client', 'xinetd']: ensure => absent }

group { 'admins': gid => 2000 }
group { 'shop': gid => 3001 }
user { 'shop': uid => 3001, gid => 'shop', home => '/var/lib/shop', shell => '/usr/sbin/nologin', system => true }
$admins = {
  'alice' => [2001, 'AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2Ugb2YgYWxpY2UncyBrZXkgZm9yIHRlc3Rz'],
  'bob'   => [2002, 'AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2Ugb2YgYm9iJ3Mga2V5IGZvciB0aGUgdGVz'],
  'carol' => [2003, 'AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2Ugb2YgY2Fyb2wncyBrZXkgZm9yIHRlc3Rz'],
  'dave'  => [2004, 'AAAAC3NzaC1lZDI1NTE5AAAAIGJhc2Ugb2YgZGF2ZSdzIGtleSBmb3IgdGhlIHRl'],
}
$admins.each |$name, $admin| {
  user { $name: uid => $admin[0], gid => 'admins', home => "/home/${name}", shell => '/bin/bash', managehome => true }
  ssh_authorized_key { "${name}@work": user => $name, type => 'ssh-ed25519', key => $admin[1] }
}
host { 'backup.example': ip => '192.0.2.10' }
host { 'metrics.example': ip => '192.0.2.11' }
host { 'mail.example': ip => '192.0.2.12' }

file { '/etc/sudoers.d/admins':
  content      => "%admins ALL=(ALL:ALL) NOPASSWD: ALL\n",
  mode         => '0440',
  validate_cmd => '/usr/sbin/visudo -cf %',
  require      => Package['sudo'],
}
file { '/etc/motd': content => "Edit the manifest, not the machine.\n" }
file { '/etc/profile.d/history.sh': content => "HISTSIZE=10000 HISTCONTROL=ignoredups\n" }
file { '/etc/security/limits.d/application.conf': content => "shop soft nofile 16384\nshop hard nofile 65536\n" }
file { '/etc/systemd/journald.conf.d': ensure => directory, mode => '0755' }
file { '/etc/systemd/journald.conf.d/size.conf':
  content => "[Journal]\nSystemMaxUse=500M\nMaxRetentionSec=1month\n",
  notify  => Service['systemd-journald'],
}
service { 'systemd-journald': ensure => running }
service { 'ssh': ensure => running, enable => true, require => Package['openssh-server'] }
service { 'cron': ensure => running, enable => true, require => Package['cron'] }
service { 'nftables': enable => true, require => Package['nftables'] }

file { '/srv/cache': ensure => directory, mode => '0755' }
mount { '/srv/cache':
  ensure  => mounted,
  device  => 'tmpfs',
  fstype  => 'tmpfs',
  options => 'size=64m,mode=0755,nosuid,nodev',
  require => File['/srv/cache'],
}
cron { 'clean cache':
  command => 'find /srv/cache -type f -mtime +7 -delete',
  user    => 'root',
  hour    => 4,
  minute  => 10,
  require => Package['cron'],
}
cron { 'disk report': command => 'df -h >/var/log/df.log', user => 'root', special => 'daily', require => Package['cron'] }

file { ['/var/lib/shop', '/var/lib/shop/uploads', '/var/log/shop']: ensure => directory, owner => 'shop', group => 'shop', mode => '0750' }
file { ['/srv/shop', '/etc/shop']: ensure => directory, mode => '0755' }
file { '/etc/shop/database.env': content => Sensitive("DATABASE_PASSWORD=change-me\n"), group => 'shop', mode => '0640', notify => Service['shop'] }
file { '/etc/shop/settings.env': content => "PORT=8080\n", notify => Service['shop'] }
file { '/etc/shop/languages': ensure => directory, mode => '0755', recurse => true, purge => true }
['de', 'en', 'es', 'fr', 'it', 'nl', 'pl', 'pt', 'sv'].each |$language| {
  file { "/etc/shop/languages/${language}.conf": content => "language=${language}\n" }
}
file { '/usr/local/bin/shop': content => "#!/bin/sh\necho \"listening on \$PORT\"\nexec sleep infinity\n", mode => '0755', notify => Service['shop'] }
file { '/etc/systemd/system/shop.service':
  content => @(UNIT),
    [Unit]
    Description=Shop
    After=postgresql.service
    [Service]
    User=shop
    EnvironmentFile=/etc/shop/settings.env
    EnvironmentFile=/etc/shop/database.env
    ExecStart=/usr/local/bin/shop
    Restart=on-failure
    [Install]
    WantedBy=multi-user.target
    | UNIT
  notify  => Service['shop'],
}
service { 'shop': ensure => running, enable => true, require => User['shop'] }
file { '/usr/local/bin/shop-report': content => "#!/bin/sh\ndate >>/var/log/shop/report.log\n", mode => '0755' }
file { '/etc/systemd/system/shop-report.service':
  content => "[Unit]\nDescription=Daily report of the shop\n[Service]\nType=oneshot\nUser=shop\nExecStart=/usr/local/bin/shop-report\n",
}
file { '/etc/systemd/system/shop-report.timer':
  content => "[Unit]\nDescription=Daily report of the shop\n[Timer]\nOnCalendar=daily\nPersistent=true\n[Install]\nWantedBy=timers.target\n",
  notify  => Service['shop-report.timer'],
}
service { 'shop-report.timer': ensure => running, enable => true, require => File['/etc/systemd/system/shop-report.service'] }
file { '/etc/logrotate.d/shop':
  content => "/var/log/shop/*.log {\n  weekly\n  rotate 8\n  compress\n  missingok\n  su shop shop\n}\n",
}

service { 'postgresql': ensure => running, enable => true, require => Package['postgresql'] }
file { '/etc/postgresql/15/main/conf.d/server.conf':
  content => "listen_addresses = 'localhost'\nshared_buffers = 128MB\nlog_min_duration_statement = 250\n",
  owner   => 'postgres',
  group   => 'postgres',
  mode    => '0640',
  require => Package['postgresql'],
  notify  => Service['postgresql@15-main'],
}
service { 'postgresql@15-main': ensure => running, require => Package['postgresql'] }
file { '/etc/cron.d/vacuum': content => "30 3 * * 0 postgres vacuumdb --all --quiet\n", require => Package['cron'] }

file { '/etc/nginx/sites-enabled/default': ensure => absent, owner => undef, group => undef, mode => undef, require => Package['nginx-light'], notify => Service['nginx'] }
$snippets = {
  'gzip'     => "gzip_types text/css application/json;\n",
  'log'      => "access_log /var/log/nginx/access.log combined;\n",
  'timeouts' => "client_body_timeout 10s;\nkeepalive_timeout 20s;\n",
  'headers'  => "add_header X-Content-Type-Options nosniff always;\n",
}
$snippets.each |$name, $text| {
  file { "/etc/nginx/conf.d/${name}.conf": content => $text, require => Package['nginx-light'], notify => Service['nginx'] }
}
file { '/etc/nginx/sites-available/shop.example':
  content => @(SITE),
    server {
      listen 80;
      server_name shop.example;
      include /etc/nginx/shop.example.d/*.conf;
      root /srv/www;
      error_page 403 /403.html;
      error_page 404 /404.html;
    }
    | SITE
  require => Package['nginx-light'],
  notify  => Service['nginx'],
}
file { '/etc/nginx/sites-enabled/shop.example':
  ensure  => link,
  target  => '/etc/nginx/sites-available/shop.example',
  owner   => undef,
  group   => undef,
  mode    => undef,
  require => Package['nginx-light'],
  notify  => Service['nginx'],
}
file { '/etc/nginx/shop.example.d': ensure => directory, mode => '0755', recurse => true, purge => true, require => Package['nginx-light'], notify => Service['nginx'] }
$sites = { 'shop' => ['/', '4m'], 'blog' => ['/blog', '1m'], 'docs' => ['/docs', '1m'], 'status' => ['/status', '1k'], 'api' => ['/api', '16m'] }
$sites.each |$name, $site| {
  file { "/etc/nginx/shop.example.d/${name}.conf":
    content => "location ${site[0]} {\n  client_max_body_size ${site[1]};\n  try_files \$uri \$uri/ =404;\n}\n",
    notify  => Service['nginx'],
  }
}
file { ['/srv/www', '/srv/www/blog', '/srv/www/docs', '/srv/www/status', '/srv/www/api']: ensure => directory, mode => '0755' }
file { '/srv/www/index.html': content => "<h1>shop.example</h1>\n" }
$errors = {
  '403' => 'Forbidden',
  '404' => 'Not found',
  '500' => 'Something failed',
  '502' => 'The application is down',
  '503' => 'Try again later',
}
$errors.each |$code, $text| {
  file { "/srv/www/${code}.html": content => "<h1>${text}</h1>\n" }
}
service { 'nginx': ensure => running, enable => true, require => Package['nginx-light'], restart => '/bin/systemctl reload nginx' }
