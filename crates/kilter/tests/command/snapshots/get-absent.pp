file { '/nowhere/at/all':
  ensure => 'absent',
}
